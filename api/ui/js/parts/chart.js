//! Lines over time, drawn by uPlot. The words beside a line say the same as its newest point, or the one under the cursor.

import { html, useEffect, useRef, useState } from '../lib.js';
import { size as bytes } from '../words.js';
import { colour, useChart, useColours } from './loaded.js';

/** @typedef {{name: string, values: (number | null)[], show: (value: number) => string, of?: number}} Line */

const HEIGHT_PX = 128;
/** Distances of the marks of an axis that shows bytes. */
const BYTE_STEPS = Array.from({ length: 46 }, (_, i) => 2 ** i);
const COLOURS = ['accent', 'warn-bg', 'wait-bg', 'bad-bg'];

/** Time of day in UTC. @param {number} seconds */
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

/** @param {Line[]} lines @param {number} width */
function options(lines, width) {
  const axis = { stroke: colour('dim'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false },
    font: '11px system-ui' };
  const top = Math.max(0, ...lines.map((line) => line.of ?? 0));
  return {
    width, height: HEIGHT_PX, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    padding: [6, 8, 0, 0],
    scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ max) =>
      [0, Math.max(top, (max ?? 0) * 1.1, 1e-9)] } },
    axes: [{ ...axis, size: 26, space: 80, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
      ticks.map(clock) }, { ...axis, size: 62, space: 34,
      ...(lines[0].show === bytes ? { incrs: BYTE_STEPS } : {}),
      values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => lines[0].show(tick)) }],
    series: [{}, ...lines.map((_, i) => ({ stroke: colour(COLOURS[i % COLOURS.length]), width: 1.6,
      fill: lines.length === 1 ? `${colour('accent')}1f` : undefined, points: { show: false } }))],
  };
}

/**
 * @param {{times: number[], lines: Line[], label: string}} props  times in seconds since 1970
 */
export function Chart({ times, lines, label }) {
  const { ready, error } = useChart();
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {Plot | null} */ (null));
  const [under, setUnder] = useState(/** @type {number | null} */ (null));
  const [paint, again] = useState(0);
  useColours(() => again((/** @type {number} */ n) => n + 1));
  const data = [times, ...lines.map((line) => line.values)];
  useEffect(() => {
    const into = box.current;
    if (!ready || into === null) return undefined;
    const drawn = new window.uPlot({ ...options(lines, into.clientWidth || 300),
      hooks: { setCursor: [(/** @type {Plot} */ of) => setUnder(of.cursor.idx)] } }, data, into);
    chart.current = drawn;
    const sizes = new ResizeObserver(() => drawn.setSize({ width: into.clientWidth, height: HEIGHT_PX }));
    sizes.observe(into);
    return () => {
      sizes.disconnect();
      chart.current = null;
      drawn.destroy();
    };
  }, [ready, paint, lines.map(({ name, of }) => `${name}${of}`).join()]);
  useEffect(() => chart.current?.setData(data), [times, ready]);
  const at = under !== null && under < times.length ? under : times.length - 1;
  const said = (/** @type {Line} */ line) => {
    const value = line.values[at];
    if (value === null || value === undefined) return '—';
    return line.of ? `${line.show(value)} of ${line.show(line.of)}` : line.show(value);
  };
  const when = under === null || at < 0 ? '' : clock(times[at]);
  return html`<figure class="chart"><figcaption><h3>${label}</h3>
      <span>${lines.map((line, i) => html`<span class="line" key=${line.name}>
        ${lines.length > 1 ? html`<i class=${`l${i}`} aria-hidden="true"></i>${line.name} ` : null}
        <b>${said(line)}</b></span>`)}${when === '' ? null : html`<small class="dim">${when} UTC</small>`}</span>
    </figcaption>${error === '' ? null : html`<p class="dim">${error}</p>`}
    <div class="plot" ref=${box} role="img" aria-label=${`${label}: ${lines.map((line) =>
      `${line.name} ${said(line)}`).join(', ')}`}></div></figure>`;
}

/** Newest points of a chart that is fed while it is on screen.
 * @param {any} answer  changes when there is a new point
 * @param {() => (number | null)[] | null} read  values of the point, one a line
 * @param {number} [most]
 */
export function usePoints(answer, read, most = 300) {
  const [points, set] = useState(/** @type {{times: number[], values: (number | null)[][]}} */ ({ times: [],
    values: [] }));
  useEffect(() => {
    const values = answer ? read() : null;
    if (values === null) return;
    set((/** @type {any} */ old) => ({
      times: [...old.times, Date.now() / 1000].slice(-most),
      values: values.map((value, i) => [...(old.values[i] ?? []), value].slice(-most)) }));
  }, [answer]);
  return points;
}
