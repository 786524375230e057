//! A job file: edit, plan with its difference and what would be placed, then run exactly what was planned.

import { ApiError, ask, at, useGet, write } from '../api.js';
import { html, useEffect, useMemo, useSignal, useState } from '../lib.js';
import { Action, Card, Failed, Head, Json } from '../parts/basics.js';
import { JobDiff } from '../parts/diff.js';
import { go, paths } from '../router.js';
import { versionOf } from '../store.js';
import { placementWords } from '../words.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {{source: string, job: Row, answer: Row}} Planned */

/** @param {string} source @returns {Promise<Row>} */
async function parse(source) {
  if (source.trimStart().startsWith('{')) {
    const parsed = JSON.parse(source);
    return parsed.Job ?? parsed;
  }
  return ask('/v1/jobs/parse', { JobHCL: source, Canonicalize: true });
}

/** @param {string} source @returns {Promise<Planned>} */
async function plan(source) {
  let job;
  try {
    job = await parse(source);
  } catch (error) {
    throw error instanceof SyntaxError ? new ApiError(0, error.message) : error;
  }
  const space = encodeURIComponent(job.Namespace ?? 'default');
  const answer = await ask(`/v1/job/${encodeURIComponent(job.ID)}/plan?namespace=${space}`, { Job: job, Diff: true });
  return { source, job, answer };
}

/** Numbers of a plan's desired changes, in words. @param {Row} updates */
function updateWords(updates) {
  const words = /** @type {[string, string][]} */ ([['Place', 'place'], ['InPlaceUpdate', 'update in place'],
    ['DestructiveUpdate', 'replace'], ['Canary', 'start as canary'], ['Migrate', 'migrate'], ['Stop', 'stop'],
      ['Ignore', 'leave as it is']]);
  return words.filter(([field]) => updates[field] > 0).map(([field, word]) => `${word} ${updates[field]}`).join(', ') || 'nothing to do';
}

/** @param {{planned: Planned}} props */
function Planned({ planned }) {
  const { answer } = planned;
  const groups = Object.entries(answer.Annotations?.DesiredTGUpdates ?? {});
  return html`${answer.Warnings ? html`<div class="note warn">${answer.Warnings}</div>` : null}
    ${Object.entries(answer.FailedTGAllocs ?? {}).map(([group, metric]) => html`<div class="note warn" key=${group}>
      ${placementWords(group, /** @type {Row} */ (metric)).join(' ')}</div>`)}
    <${Card} title="Plan"><div class="body"><p>${groups.map(([group, updates]) => html`<span><strong>${group}</strong>:
      ${' '}${updateWords(/** @type {Row} */ (updates))}. </span>`)}</p><${JobDiff} diff=${answer.Diff} /></div><//>`;
}

/** @param {{source: string, label: string}} props */
function Editor({ source, label }) {
  const [text, setText] = useState(source);
  const [planned, setPlanned] = useState(/** @type {Planned | null} */ (null));
  const past = useSignal(at) !== null;
  useEffect(() => { setText(source); setPlanned(null); }, [source]);
  const isPlanned = planned !== null && planned.source === text;
  const run = (/** @type {Planned} */ { job, answer }) => write('POST',
    `/v1/jobs?namespace=${encodeURIComponent(job.Namespace ?? 'default')}`, {
    Job: job, EnforceIndex: true, JobModifyIndex: answer.JobModifyIndex,
    Submission: { Source: text, Format: text.trimStart().startsWith('{') ? 'json' : 'hcl2' } });
  const lines = Math.min(34, Math.max(14, text.split('\n').length + 1));
  return html`<${Card} title=${label} aside=${html`<${Action} run=${() => plan(text)} done=${setPlanned}
      disabled=${text.trim() === ''}>Plan<//>
    <${Action} kind="main" disabled=${!isPlanned} run=${() => run(/** @type {Planned} */ (planned))}
      done=${() => planned && go(paths.job({ ID: planned.job.ID,
        Namespace: planned.job.Namespace ?? 'default' }))}>Run this plan<//>`}>
    <div class="body"><textarea aria-label="Job file" spellcheck="false" rows=${lines} value=${text} readonly=${past}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)}></textarea></div><//>
    ${isPlanned ? html`<${Planned} planned=${planned} />` : null}`;
}

/** Definition of a job: its file if it was kept, else its JSON. @param {{job: Row}} props */
export function JobFile({ job }) {
  const space = `namespace=${encodeURIComponent(job.Namespace)}`;
  const got = useGet(`/v1/job/${encodeURIComponent(job.ID)}/submission?version=${job.Version}&${space}`,
    useMemo(() => versionOf('Job'), []));
  const source = got.data?.Source ?? '';
  if (got.loading) return null;
  const missing = got.error && got.error.status !== 404 ? got.error : null;
  return html`<${Failed} error=${missing} />
    <${Editor} source=${source === '' ? JSON.stringify(job, null, 2) : source} label=${source === '' ? 'Job as JSON'
      : 'Job file'} />
    ${source === '' ? null : html`<${Card} title="As the cluster has it"><div class="body">
      <${Json} value=${job} /></div><//>`}`;
}

const EXAMPLE = `job "example" {
  type = "service"

  group "web" {
    count = 1

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date; sleep 2; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`;

export function RunJob() {
  return html`<${Head} title="Run a job" /><${Editor} source=${EXAMPLE} label="Job file, HCL or JSON" />`;
}
