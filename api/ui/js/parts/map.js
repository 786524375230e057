//! Map of nodes by datacenter and class: how full each is, and whether it takes allocations. A few nodes are links;
//! thousands are drawn, and the table below the map is the way to them with the keyboard.

import { html, useEffect, useRef, useState } from '../lib.js';
import { Link, go, paths } from '../router.js';
import { counted } from '../words.js';
import { Card } from './basics.js';
import { colour, useColours } from './loaded.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {Map<string, {cpu: number, memory: number, count: number}>} Use */

/** Nodes above which they are drawn. */
const LINKS_MAX = 300;
/** Side of a drawn node and the gap between two, in pixels. */
const CELL_PX = 12;
const GAP_PX = 2;

/** @param {Row} node */
export const state = (node) => (node.Status !== 'ready' ? node.Status : node.Drain || node.DrainStrategy ? 'draining'
  : node.SchedulingEligibility === 'ineligible' ? 'ineligible' : 'ready');

/** @param {Row} node */
export const room = (node) => ({ cpu: node.NodeResources?.Cpu?.CpuShares ?? 0,
  memory: node.NodeResources?.Memory?.MemoryMB ?? 0 });

/** What the map shows of a node. @param {Row} node @param {Use} use */
function look(node, use) {
  const used = use.get(node.ID) ?? { cpu: 0, memory: 0, count: 0 };
  const all = room(node);
  const share = Math.min(1, Math.max(used.cpu / (all.cpu || 1), used.memory / (all.memory || 1)));
  const is = state(node);
  const kind = ['down', 'disconnected'].includes(node.Status) ? 'bad' : is === 'ready' ? (share > 0.85 ? 'warn' : '') : 'off';
  return { share, kind, words: () => `${node.Name}: ${is}, ${Math.round(share * 100)} % reserved, ${
    counted(used.count, 'allocation')}` };
}

/** @param {{nodes: Row[], use: Use}} props */
function Links({ nodes, use }) {
  return html`<div class="cells">${nodes.map((node) => {
    const { share, kind, words } = look(node, use);
    return html`<${Link} key=${node.ID} class="cell ${kind}" to=${paths.node(node.ID)} title=${words()}
      aria-label=${words()}>
      <i style=${{ height: `${Math.round(share * 100)}%` }}></i><//>`;
  })}</div>`;
}

/** @param {{nodes: Row[], use: Use, name: string}} props */
function Drawn({ nodes, use, name }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [paint, again] = useState(0);
  useColours(() => again((/** @type {number} */ n) => n + 1));
  const step = CELL_PX + GAP_PX;
  const columns = Math.max(1, Math.floor(width / step));
  const height = Math.ceil(nodes.length / columns) * step;
  useEffect(() => {
    const parent = canvas.current?.parentElement;
    if (!parent) return undefined;
    const sizes = new ResizeObserver(() => setWidth(parent.clientWidth));
    sizes.observe(parent);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    const into = canvas.current?.getContext('2d');
    if (!into || !canvas.current || width === 0) return;
    const scale = window.devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = height * scale;
    into.scale(scale, scale);
    const [empty, full, warn, bad, off] = ['line', 'good-bg', 'warn-bg', 'bad-bg', 'done-bg'].map(colour);
    nodes.forEach((node, i) => {
      const { share, kind } = look(node, use);
      const x = (i % columns) * step;
      const y = Math.floor(i / columns) * step;
      into.fillStyle = kind === 'bad' ? bad : kind === 'off' ? off : empty;
      into.fillRect(x, y, CELL_PX, CELL_PX);
      if (kind === 'bad' || kind === 'off') return;
      into.fillStyle = kind === 'warn' ? warn : full;
      into.fillRect(x, y + CELL_PX * (1 - share), CELL_PX, CELL_PX * share);
    });
  }, [nodes, use, width, paint]);
  const under = (/** @type {MouseEvent} */ event) =>
    nodes[Math.floor(event.offsetY / step) * columns + Math.floor(event.offsetX / step)];
  return html`<canvas ref=${canvas} class="cells" role="img" aria-label=${name}
    style=${{ width: '100%', height: `${height}px` }}
    onMouseMove=${(/** @type {any} */ event) => {
      const node = under(event);
      event.currentTarget.title = node === undefined ? '' : look(node, use).words();
    }}
    onClick=${(/** @type {any} */ event) => {
      const node = under(event);
      if (node !== undefined) go(paths.node(node.ID));
    }}></canvas>`;
}

/** @param {{nodes: Row[], use: Use}} props */
export function NodeMap({ nodes, use }) {
  /** @type {Map<string, Row[]>} */
  const places = new Map();
  for (const node of nodes) {
    const key = `${node.Datacenter}${node.NodeClass ? ` · ${node.NodeClass}` : ''}`;
    const list = places.get(key);
    if (list === undefined) places.set(key, [node]);
    else list.push(node);
  }
  const Cells = nodes.length > LINKS_MAX ? Drawn : Links;
  return html`<${Card} title="Map"
    aside=${html`<span class="dim">Height is the larger share of reserved CPU and memory</span>`}>
    <div class="map">${[...places].sort().map(([name, inside]) => html`<div key=${name}>
      <h3>${name} · ${counted(inside.length, 'node')}</h3>
      <${Cells} nodes=${inside} use=${use} name=${`${name}: ${counted(inside.length, 'node')}`} /></div>`)}</div><//>`;
}
