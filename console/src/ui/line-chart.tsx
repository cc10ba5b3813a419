// Numbers over time, drawn by uPlot on a canvas. The same numbers are a table for who cannot see the canvas.

import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatRate, formatTime } from "./format";
import { Table } from "./table";
import { useTheme } from "./theme";
import styles from "./line-chart.module.css";

export interface ChartSeries {
  label: string;
  /** As long as `times`; `null` is a gap. */
  values: readonly (number | null)[];
  /** The name of a colour of `tokens.css`; by position without it. */
  color?: string;
}

export interface LineChartProps {
  /** What is drawn, for screen readers. */
  label: string;
  /** In milliseconds since 1970, ascending. */
  times: readonly number[];
  series: readonly ChartSeries[];
  format?: (value: number) => string;
  height?: number;
  /** Called with the range that the reader dragged over. */
  onSelect?: (sinceMs: number, untilMs: number) => void;
  /** The range of the axis, where it is not that of `times`. */
  rangeMs?: readonly [number, number];
}

/** Rows of the table: the newest. */
const TABLE_ROWS_MAX = 500;

function colorOf(series: ChartSeries, index: number): string {
  return series.color ?? `--series-${(index % 6) + 1}`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

export function LineChart({ label, times, series, format = formatRate, height = 160, onSelect, rangeMs }: LineChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [isTable, setTable] = useState(false);
  const theme = useTheme();
  const latest = useRef({ format, onSelect, rangeMs });
  latest.current = { format, onSelect, rangeMs };

  const data = useMemo(
    () => [times.map((ms) => ms / 1000), ...series.map((each) => each.values)] as unknown as uPlot.AlignedData,
    [times, series],
  );
  const dataRef = useRef(data);
  dataRef.current = data;
  // uPlot is made anew when what it draws changes, not when the numbers do.
  const shape = series.map((each, index) => `${each.label}\u0000${colorOf(each, index)}`).join("\u0001");
  const isSelectable = onSelect !== undefined;

  useEffect(() => {
    const element = box.current;
    if (element === null || isTable) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: color("--text-3"),
      font: `11px ${color("--font")}`,
      grid: { stroke: color("--border"), width: 1 },
      ticks: { show: false },
      gap: 6,
    };
    const options: uPlot.Options = {
      width: Math.max(element.clientWidth, 50),
      height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: isSelectable, y: false, setScale: false } },
      scales: {
        x: { time: true, range: (_, min, max) => (latest.current.rangeMs === undefined ? [min, max] : [latest.current.rangeMs[0] / 1000, latest.current.rangeMs[1] / 1000]) },
        y: { range: (_, __, max) => [0, Number.isFinite(max) && max > 0 ? max * 1.1 : 1] },
      },
      axes: [
        {
          ...axis,
          size: 24,
          space: 70,
          values: (_, splits) => {
            const span = (splits.at(-1) ?? 0) - (splits[0] ?? 0);
            const format = span > 86_400 ? day : span < 300 ? clockWithSeconds : clock;
            return splits.map((s) => format.format(s * 1000));
          },
        },
        { ...axis, size: 56, space: 30, values: (_, splits) => splits.map((value) => latest.current.format(value)) },
      ],
      series: [
        {},
        ...series.map((each, index) => ({
          label: each.label,
          stroke: color(colorOf(each, index)),
          width: 1.5,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: {
        setCursor: [(u) => setAt(u.cursor.idx ?? null)],
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const since = u.posToVal(u.select.left, "x") * 1000;
            const until = u.posToVal(u.select.left + u.select.width, "x") * 1000;
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            latest.current.onSelect?.(Math.round(since), Math.round(until));
          },
        ],
      },
    };
    const drawn = new uPlot(options, dataRef.current, element);
    plot.current = drawn;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) drawn.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [shape, height, theme, isSelectable, isTable]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data, rangeMs?.[0], rangeMs?.[1]]);

  const shown = at ?? times.length - 1;
  const valueAt = (each: ChartSeries) => {
    const value = each.values[shown];
    return value === null || value === undefined ? "–" : format(value);
  };
  const summary = `${label}. Latest: ${series.map((each) => `${each.label} ${valueAt(each)}`).join(", ")}.`;
  const shownAt = times[shown];
  return (
    <div className={styles.chart}>
      {isTable ? (
        <div className={styles.table} style={{ maxHeight: height }}>
          <ChartTable label={label} times={times} series={series} format={format} />
        </div>
      ) : (
        <div className={styles.canvas} style={{ height }} ref={box} role="img" aria-label={summary}>
          {times.length === 0 && <div className={styles.nothing}>Nothing in this time</div>}
        </div>
      )}
      <div className={styles.legend}>
        {series.map((each, index) => (
          <span key={each.label} className={styles.entry}>
            <span className={styles.line} style={{ background: `var(${colorOf(each, index)})` }} />
            {each.label}
            <span className={styles.value}>{valueAt(each)}</span>
          </span>
        ))}
        <span className={styles.at}>{at !== null && shownAt !== undefined ? formatTime(shownAt) : ""}</span>
        <button type="button" className={styles.toggle} onClick={() => setTable(!isTable)} aria-pressed={isTable}>
          {isTable ? "Show as chart" : "Show as table"}
        </button>
      </div>
    </div>
  );
}

function ChartTable({ label, times, series, format }: Required<Pick<LineChartProps, "label" | "times" | "series" | "format">>) {
  const first = Math.max(0, times.length - TABLE_ROWS_MAX);
  const rows = times.slice(first).map((ms, index) => ({ ms, index: first + index })).reverse();
  return (
    <Table
      label={label}
      rows={rows}
      rowKey={(row) => String(row.ms)}
      columns={[
        { id: "time", header: "Time", cell: (row) => formatTime(row.ms), primary: true },
        ...series.map((each) => ({
          id: each.label,
          header: each.label,
          align: "end" as const,
          cell: (row: { index: number }) => {
            const value = each.values[row.index];
            return value === null || value === undefined ? "–" : format(value);
          },
        })),
      ]}
    />
  );
}
