// Between what the browser's pickers of dates give, and RFC 3339.

type PickerType = "date" | "time" | "datetime-local";

/** What a picker shows for a value; empty where it is none. */
export function localTime(type: PickerType, value: string): string {
  if (type === "date") return /^\d{4}-\d{2}-\d{2}$/.test(value) ? value : "";
  if (type === "time") return /^\d{2}:\d{2}(:\d{2})?/.exec(value)?.[0] ?? "";
  const ms = Date.parse(value);
  if (!/^\d{4}-\d{2}-\d{2}[Tt ]/.test(value) || Number.isNaN(ms)) return "";
  const date = new Date(ms);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The value of what was picked: with the offset of this machine, since RFC 3339 wants one. */
export function rfcTime(type: PickerType, picked: string): string {
  if (type === "date") return picked;
  const seconds = /:\d{2}:\d{2}/.test(picked) ? picked : `${picked}:00`;
  const at = type === "time" ? new Date() : new Date(picked);
  return seconds + offset(-at.getTimezoneOffset());
}

function offset(minutes: number): string {
  if (minutes === 0) return "Z";
  const size = Math.abs(minutes);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
