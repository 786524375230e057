//! Versions of a job, each with its difference to the one before, and the way back.

import { useGet, write } from '../api.js';
import { html, useMemo, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Status, Time } from '../parts/basics.js';
import { JobDiff } from '../parts/diff.js';
import { versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

/** @param {{job: Row}} props */
export function Versions({ job }) {
  const base = `/v1/job/${encodeURIComponent(job.ID)}`;
  const space = `namespace=${encodeURIComponent(job.Namespace)}`;
  const got = useGet(`${base}/versions?diffs=true&${space}`, useMemo(() => versionOf('Job'), []));
  const [shut, setShut] = useState(/** @type {number[]} */ ([]));
  if (got.data === null) return html`<${Failed} error=${got.error} />${got.loading
    ? html`<${Empty}>Reading…<//>` : null}`;
  const versions = /** @type {Row[]} */ (got.data.Versions ?? []);
  const revert = (/** @type {number} */ version) => write('POST', `${base}/revert?${space}`,
    { JobID: job.ID, JobVersion: version, EnforcePriorVersion: job.Version });
  return html`<${Failed} error=${got.error} />${versions.map((version, i) => {
    const isShut = shut.includes(version.Version);
    const turn = () => setShut(isShut ? shut.filter((other) => other !== version.Version) : [...shut, version.Version]);
    return html`<${Card} key=${version.Version} title=${html`Version ${version.Version} ${version.Stable
      ? html`<${Status} value="healthy" />` : null}`} aside=${html`<span class="dim">
        <${Time} time=${version.SubmitTime} /></span>
        ${i > 0 ? html`<${Action} confirm=${`Revert to version ${version.Version}`}
          run=${() => revert(version.Version)}>Revert to this<//>` : null}
        ${i + 1 < versions.length ? html`<button type="button" aria-expanded=${!isShut}
          onClick=${turn}>Changes</button>` : null}`}>
      ${i + 1 < versions.length ? (isShut ? null : html`<div class="body"><${JobDiff}
        diff=${got.data.Diffs?.[i]} /></div>`)
        : html`<${Empty}>The oldest version that is kept.<//>`}<//>`;
  })}`;
}
