// Backends on one side, shapes on the other, a line for each that uses one; lines between shapes that are nearly equal.
//
// It is bounded, laid out in rows, and drawn once: what is pointed at or has the focus is told by the style sheet's classes.

import { useMemo, useState } from "react";
import type { KeyboardEvent } from "react";
import type { Shape } from "../../lib/shapes/shapes";
import { cut, cx, formatCount, visible } from "../../ui";
import styles from "./schemas.module.css";

/** More rows are not looked at; the list has them. */
const SHAPES_MAX = 60;
const BACKENDS_MAX = 40;
const ROW = 26;
const TOP = 30;
const LEFT = 150;
const RIGHT = 430;
const WIDTH = 860;
const NEAR_MIN = 0.6;

interface Props {
  shapes: readonly Shape[];
  selected: string | undefined;
  onOpen: (id: string) => void;
}

export function Graph({ shapes, selected, onOpen }: Props) {
  const [at, setAt] = useState<string | undefined>(undefined);
  const rows = shapes.slice(0, SHAPES_MAX);
  const { backends, height, lines, arcs } = useMemo(() => layOut(shapes.slice(0, SHAPES_MAX)), [shapes]);
  const onKeyDown = (event: KeyboardEvent<SVGSVGElement>) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const move = moves[event.key];
    const node = event.target instanceof Element ? event.target.closest<SVGGElement>("[data-shape]") : null;
    if (node === null) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onOpen(node.dataset["shape"] ?? "");
    } else if (move !== undefined) {
      const all = [...event.currentTarget.querySelectorAll<SVGGElement>("[data-shape]")];
      const next = all[all.indexOf(node) + move];
      if (next === undefined) return;
      event.preventDefault();
      next.focus();
    }
  };
  const active = at ?? selected;
  const isOn = (backend: string, shape: string) => active === undefined || active === `b ${backend}` || active === shape;
  return (
    <div>
      <p className={styles.quiet}>
        {shapes.length > SHAPES_MAX ? `The ${SHAPES_MAX} shapes that are used most, of ${formatCount(shapes.length)}. ` : ""}A line leads from each backend to the shapes that its tools use; arcs join shapes that are nearly equal.
      </p>
      <div className={styles.graph} tabIndex={-1}>
        <svg viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label="Backends and the shapes that they use" onKeyDown={onKeyDown} onMouseLeave={() => setAt(undefined)}>
          <text x={LEFT} y={16} textAnchor="end" className={styles.graphHead}>
            Backends
          </text>
          <text x={RIGHT} y={16} className={styles.graphHead}>
            Shapes
          </text>
          {lines.map((line) => (
            <path key={`${line.backend}\n${line.shape}`} d={line.path} className={cx(styles.line, active !== undefined && (isOn(line.backend, line.shape) ? styles.lineOn : styles.lineOff))} strokeWidth={Math.min(4, 1 + Math.log2(line.uses))} />
          ))}
          {arcs.map((arc) => (
            <path key={`${arc.one} ${arc.other}`} d={arc.path} className={cx(styles.arc, active !== undefined && (active === arc.one || active === arc.other ? styles.lineOn : styles.lineOff))} />
          ))}
          {backends.map((backend) => (
            <g key={backend.name} onMouseEnter={() => setAt(`b ${backend.name}`)}>
              <text x={LEFT - 8} y={backend.y + 4} textAnchor="end" className={styles.graphText}>
                {short(backend.name, 20)}
              </text>
              <circle cx={LEFT} cy={backend.y} r={3.5} className={styles.dot} />
            </g>
          ))}
          {rows.map((shape, index) => (
            <g
              key={shape.id}
              data-shape={shape.id}
              role="button"
              tabIndex={shape.id === (rows.some((row) => row.id === selected) ? selected : rows[0]?.id) ? 0 : -1}
              className={cx(styles.node, shape.id === selected && styles.nodeOn)}
              onMouseEnter={() => setAt(shape.id)}
              onFocus={() => setAt(shape.id)}
              onBlur={() => setAt(undefined)}
              onClick={() => onOpen(shape.id)}
            >
              <rect x={RIGHT - 4} y={TOP + index * ROW - 12} width={WIDTH - RIGHT - 90} height={24} rx={4} className={styles.nodeBox} />
              <circle cx={RIGHT + 4} cy={TOP + index * ROW} r={3.5} className={styles.dot} />
              <text x={RIGHT + 16} y={TOP + index * ROW + 4} className={styles.graphText}>
                {short(shape.name, 36)}
              </text>
              <text x={WIDTH - 102} y={TOP + index * ROW + 4} textAnchor="end" className={styles.graphCount}>
                {shape.usages.length} {shape.usages.length === 1 ? "use" : "uses"}
              </text>
            </g>
          ))}
        </svg>
      </div>
    </div>
  );
}

function short(text: string, max: number): string {
  const whole = visible(text);
  return whole.length > max ? `${cut(whole, max - 1)}…` : whole;
}

function layOut(shapes: readonly Shape[]) {
  const uses = new Map<string, number>();
  for (const shape of shapes) for (const usage of shape.usages) uses.set(usage.backend, (uses.get(usage.backend) ?? 0) + 1);
  const row = new Map(shapes.map((shape, index) => [shape.id, index]));
  // A backend stands at the mean height of its shapes, so that few lines cross.
  const mean = (backend: string) => {
    const all = shapes.flatMap((shape, index) => (shape.backends.includes(backend) ? [index] : []));
    return all.reduce((sum, index) => sum + index, 0) / Math.max(1, all.length);
  };
  const names = [...uses.keys()]
    .sort((a, b) => (uses.get(b) ?? 0) - (uses.get(a) ?? 0))
    .slice(0, BACKENDS_MAX)
    .sort((a, b) => mean(a) - mean(b));
  const rows = Math.max(shapes.length, names.length);
  const y = (index: number) => TOP + index * ROW;
  const step = (rows - 1) / Math.max(1, names.length);
  const backends = names.map((name, index) => ({ name, y: y((index + 0.5) * step) }));
  const middle = (LEFT + RIGHT) / 2;
  const lines = shapes.flatMap((shape, index) =>
    backends.flatMap((backend) => {
      const count = shape.usages.filter((usage) => usage.backend === backend.name).length;
      if (count === 0) return [];
      return [{ backend: backend.name, shape: shape.id, uses: count, path: `M${LEFT + 5},${backend.y} C${middle},${backend.y} ${middle},${y(index)} ${RIGHT - 4},${y(index)}` }];
    }),
  );
  const arcs = shapes.flatMap((shape, index) =>
    shape.near.flatMap(({ id, similarity }) => {
      const other = row.get(id);
      if (other === undefined || other <= index || similarity < NEAR_MIN) return [];
      const x = WIDTH - 92;
      const bend = Math.min(80, 14 + (other - index) * 4);
      return [{ one: shape.id, other: id, path: `M${x},${y(index)} C${x + bend},${y(index)} ${x + bend},${y(other)} ${x},${y(other)}` }];
    }),
  );
  return { backends, lines, arcs, height: TOP + rows * ROW + 8 };
}
