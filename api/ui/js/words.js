//! Texts of values: ages, sizes, ids, and placement failures in sentences. No markup.

/** @typedef {Record<string, any>} Row */

/** @param {string} id */
export const short = (id) => (/^[0-9a-f]{8}-/.test(id) ? id.slice(0, 8) : id);

/**
 * @param {number | string | null | undefined} time  nanoseconds since 1970, or RFC 3339
 * @returns {number} milliseconds
 */
export function millis(time) {
  if (typeof time === 'number') return time / 1e6;
  if (typeof time === 'string') return Date.parse(time);
  return Number.NaN;
}

/** @param {number} ms */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

/** @param {unknown} value */
export function shown(value) {
  if (value === null || value === undefined || value === '') return '—';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Actor of a log entry in words. @param {string} actor */
export function actorWords(actor) {
  const [kind, rest = ''] = actor.split(/:(.*)/s);
  if (kind === 'anonymous') return 'someone without a token';
  if (kind === 'token') return `token ${short(rest)}`;
  if (kind === 'node') return `node ${short(rest)}`;
  if (kind === 'leader') return `leader's ${rest}`;
  return actor;
}

/**
 * A metric of a failed placement as sentences.
 * @param {string} group
 * @param {Row} metric
 * @returns {string[]}
 */
export function placementWords(group, metric) {
  const out = [];
  const failed = 1 + (metric.CoalescedFailures ?? 0);
  const nodes = metric.NodesEvaluated ?? 0;
  const pool = metric.NodesInPool ?? nodes;
  out.push(`${counted(failed, 'allocation')} of group ${group} could not be placed.`);
  if (nodes === 0 && pool === 0) {
    out.push('No node was there to look at: none is ready in the job\'s pool and datacenters.');
    return out;
  }
  out.push(`The scheduler looked at ${counted(nodes, 'node')}.`);
  for (const [constraint, count] of Object.entries(metric.ConstraintFiltered ?? {})) {
    out.push(`${counted(Number(count), 'node does', 'nodes do')} not meet "${constraint}".`);
  }
  for (const [name, count] of Object.entries(metric.ClassFiltered ?? {})) {
    out.push(`${counted(Number(count), 'node')} of class ${name} ${Number(count) === 1 ? 'was' : 'were'} filtered.`);
  }
  for (const [dimension, count] of Object.entries(metric.DimensionExhausted ?? {})) {
    out.push(`${counted(Number(count), 'node has', 'nodes have')} too little ${dimension}.`);
  }
  for (const quota of metric.QuotaExhausted ?? []) out.push(`A quota is used up: ${quota}.`);
  return out;
}

/** A trigger of an evaluation in words. @param {string} trigger */
export function triggerWords(trigger) {
  /** @type {Record<string, string>} */
  const words = {
    'job-register': 'the job was registered', 'job-deregister': 'the job was stopped', 'node-update': 'a node changed',
    'node-drain': 'a node is drained', 'alloc-failure': 'an allocation failed',
      'alloc-stop': 'an allocation was stopped',
    'queued-allocs': 'some allocations found no place', 'deployment-watcher': 'the deployment moved on',
    'periodic-job': 'the periodic job was due', 'job-scaling': 'the job was scaled', preemption: 'a preemption',
    'rolling-update': 'a rolling update', 'max-plan-attempts': 'too many plans were refused',
    'failed-follow-up': 'an evaluation failed', scheduled: 'it was scheduled', reconnect: 'a node reconnected',
    'max-disconnect-timeout': 'a node was disconnected for too long',
  };
  return words[trigger] ?? trigger;
}
