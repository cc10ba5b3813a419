/** What a colour means. Never without a word or an icon beside it. */
export type Tone = "neutral" | "ok" | "warn" | "error" | "off" | "info";
