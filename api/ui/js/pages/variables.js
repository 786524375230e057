//! Variables: the list, and an editor that writes with compare-and-set and shows a conflict instead of losing a change.

import { ApiError, get, useGet, write } from '../api.js';
import { html, useEffect, useMemo, useSignal, useState } from '../lib.js';
import { Action, Card, Failed, Head, Time } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link, go } from '../router.js';
import { namespace, versionOf } from '../store.js';
import { counted } from '../words.js';

/** @typedef {Record<string, any>} Row */

/** @param {{parts: string[]}} props */
export function Variables({ parts }) {
  const space = useSignal(namespace);
  const version = useMemo(() => versionOf('Variable'), []);
  const got = useGet(`/v1/vars?namespace=${encodeURIComponent(space)}`, version);
  const [text, setText] = useState('');
  const [path = '', of = 'default'] = parts;
  if (path !== '') return html`<${Editor} key=${`${of}/${path}`} path=${path === 'new' ? '' : path} space=${of}
    version=${version} />`;
  const rows = /** @type {Row[]} */ (got.data ?? []).filter((row) => row.Path.includes(text));
  const to = (/** @type {Row} */ row) => `/variables/${encodeURIComponent(row.Path)}/${encodeURIComponent(row.Namespace)}`;
  return html`<${Head} title="Variables" aside=${html`<${Link} class="button" to="/variables/new">New variable<//>`} />
    <div class="tools"><input class="grow" type="search" aria-label="Filter variables" placeholder="Part of a path"
      value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)} /><span class="dim">${counted(rows.length,
        'variable')}</span></div>
    <${Failed} error=${got.error} /><section class="card"><${Table} label="Variables" rows=${rows} sort="Path"
      id=${(/** @type {Row} */ row) => `${row.Namespace}/${row.Path}`}
      to=${to} empty="No variable is here." columns=${[{ name: 'Path', by: (row) => row.Path, show: (row) =>
        html`<${Link} class="mono" to=${to(row)}>${row.Path}<//>` },
        { name: 'Namespace', by: (row) => row.Namespace, show: (row) => row.Namespace, class: 'p2' },
        { name: 'Changed', by: (row) => row.ModifyTime, show: (row) => html`<${Time}
          time=${row.ModifyTime} />`, class: 'num' }]} /></section>`;
}

/** @typedef {{key: string, value: string}} Item */

/** @param {{path: string, space: string, version: {value: number}}} props */
function Editor({ path, space, version }) {
  const isNew = path === '';
  const query = `namespace=${encodeURIComponent(space)}`;
  const url = (/** @type {string} */ to) => `/v1/var/${to.split('/').map(encodeURIComponent).join('/')}`;
  const got = useGet(isNew ? null : `${url(path)}?${query}`, version);
  const [name, setName] = useState(path);
  const [items, setItems] = useState(/** @type {Item[]} */ ([{ key: '', value: '' }]));
  /** Index that the edit began with, which the write compares. */
  const [base, setBase] = useState(0);
  const [dirty, setDirty] = useState(false);
  const [hidden, hide] = useState(true);
  const [conflict, setConflict] = useState(/** @type {Row | null} */ (null));
  const fill = (/** @type {Row} */ row) => {
    setItems(Object.entries(row.Items ?? {}).map(([key, value]) => ({ key, value: String(value) })));
    setBase(row.ModifyIndex);
    setDirty(false);
    setConflict(null);
  };
  useEffect(() => {
    if (got.data && !dirty) fill(got.data);
  }, [got.data]);
  const newer = got.data !== null && dirty && got.data.ModifyIndex > base;
  const change = (/** @type {number} */ i, /** @type {Partial<Item>} */ by) => {
    setItems(items.map((item, at) => (at === i ? { ...item, ...by } : item)));
    setDirty(true);
  };
  const save = async () => {
    const Items = Object.fromEntries(items.filter(({ key }) => key !== '').map(({ key, value }) => [key, value]));
    try {
      return await write('PUT', `${url(name)}?cas=${base}&${query}`, { Path: name, Namespace: space, Items });
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) {
        setConflict(await get(`${url(name)}?${query}`, null));
        throw new ApiError(409, 'someone else has changed it: nothing was written');
      }
      throw error;
    }
  };
  return html`<${Head} title=${isNew ? 'New variable' : path} over=${html`<${Link}
    to="/variables">Variables<//> · ${space}`}
      aside=${isNew || !got.data ? null : html`<${Action} confirm="Delete it" run=${() =>
        write('DELETE', `${url(path)}?cas=${base}&${query}`)} done=${() => go('/variables')}>Delete<//>`} />
    <${Failed} error=${got.error} />
    ${conflict || newer ? html`<div class="note warn" role="alert">
      <strong>Conflict.</strong> The variable changed after this edit began,
      at index ${(conflict ?? got.data).ModifyIndex}.
      ${' '}<button type="button" onClick=${() => fill(conflict ?? got.data)}>Take theirs</button>
      ${' '}<button type="button" onClick=${() => { setBase((conflict ?? got.data).ModifyIndex); setConflict(null); }}>Keep mine, over theirs</button></div>` : null}
    ${!isNew && !got.data ? null : html`<${Card} title="Items" aside=${html`<button type="button"
      aria-pressed=${!hidden} onClick=${() => hide(!hidden)}>Show values</button>
      <${Action} kind="main" run=${save} disabled=${name === ''}
        done=${(/** @type {Row} */ row) => { fill(row); if (isNew) go(`/variables/${encodeURIComponent(name)}/${space}`); }}>Save<//>`}>
      <div class="body stack">${isNew ? html`<label>Path <input class="mono" value=${name}
        onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>` : null}
      ${items.map((item, i) => html`<div class="tools" key=${i}><input class="mono" aria-label=${`Key ${i + 1}`}
        placeholder="key" value=${item.key}
        onInput=${(/** @type {any} */ e) => change(i, { key: e.target.value })} />
          <input class="grow mono" type=${hidden ? 'password' : 'text'} autocomplete="off"
        aria-label=${`Value of ${item.key || i + 1}`} value=${item.value} onInput=${(/** @type {any} */ e) => change(i,
          { value: e.target.value })} />
        <button type="button" aria-label=${`Remove ${item.key}`} onClick=${() => { setItems(items.filter((_, at) =>
          at !== i)); setDirty(true); }}>✕</button></div>`)}
      <div><button type="button" onClick=${() => setItems([...items, { key: '',
        value: '' }])}>Add an item</button></div></div><//>`}`;
}
