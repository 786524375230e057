//! Resources that allocations reserve, by node; and the ticks of pages that ask a node for what no event carries.

import { signal, useEffect, useMemo } from '../lib.js';

/** @typedef {Record<string, any>} Row */

/**
 * @param {Map<string, Row>} allocs
 * @returns {Map<string, {cpu: number, memory: number, count: number}>}
 */
export function nodeUse(allocs) {
  /** @type {Map<string, {cpu: number, memory: number, count: number}>} */
  const out = new Map();
  for (const row of allocs.values()) {
    if (row.DesiredStatus !== 'run' || ['complete', 'failed', 'lost'].includes(row.ClientStatus)) continue;
    let sum = out.get(row.NodeID);
    if (sum === undefined) {
      sum = { cpu: 0, memory: 0, count: 0 };
      out.set(row.NodeID, sum);
    }
    sum.count += 1;
    for (const task of Object.values(row.AllocatedResources?.Tasks ?? {})) {
      sum.cpu += task.Cpu?.CpuShares ?? 0;
      sum.memory += task.Memory?.MemoryMB ?? 0;
    }
  }
  return out;
}

/** Ticks while a page asks a node for numbers that no event carries. @param {number} ms */
export function useTicks(ms) {
  const ticks = useMemo(() => signal(0), []);
  useEffect(() => {
    const timer = window.setInterval(() => { if (!document.hidden) ticks.value += 1; }, ms);
    return () => window.clearInterval(timer);
  }, []);
  return ticks;
}
