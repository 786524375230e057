//! A command in a running task, in a terminal: xterm.js over the websocket of `exec`.
//!
//! The content policy forbids style elements and style attributes that a script writes as text, as xterm.js does. Both
//! go through the object model of styles instead, which the policy permits.

import { at, token } from '../api.js';
import { html, useEffect, useRef, useSignal, useState } from '../lib.js';
import { Card, Empty } from './basics.js';
import { colour, useColours, useTerminal } from './loaded.js';

/** Closing code after a command that ended by itself. */
const CLOSED_NORMALLY = 1000;

/** Stands for a style element: its text becomes a sheet that the document adopts. */
function sheetElement() {
  const element = document.createElement('meta');
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, 'textContent', { set: (/** @type {string} */ text) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** Styles of single cells: xterm.js writes them as the text of an attribute, into spans of the page's own document. */
HTMLSpanElement.prototype.setAttribute = function setAttribute(/** @type {string} */ key, /** @type {string} */ value) {
  if (key === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, key, value);
};

/** The document that xterm.js sees. */
const ours = new Proxy(document, {
  get(target, key) {
    if (key === 'createElement') {
      return (/** @type {string} */ name) => (name === 'style' ? sheetElement() : target.createElement(name));
    }
    const value = Reflect.get(target, key, target);
    return typeof value === 'function' ? value.bind(target) : value;
  },
});

/** Colours of the terminal, from those of the page. */
const theme = () => ({ background: colour('sunk'), foreground: colour('text'), cursor: colour('accent'),
  cursorAccent: colour('sunk'), selectionBackground: `${colour('accent')}55` });

/** @param {Uint8Array} bytes */
const encode = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
/** @param {string} text */
const decode = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/**
 * Opens the session and joins it to the terminal.
 * @param {Term} term
 * @param {{alloc: Record<string, any>, task: string, command: string}} what
 * @param {(said: string) => void} ended
 */
function join(term, { alloc, task, command }, ended) {
  const query = new URLSearchParams({ task, tty: 'true', ws_handshake: 'true', namespace: alloc.Namespace,
    command: JSON.stringify(command.trim().split(/\s+/)) });
  const url = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/client/allocation/${alloc.ID}/exec?${query}`;
  const socket = new WebSocket(url);
  let exit = '';
  const send = (/** @type {object} */ message) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
  const size = () => send({ tty_size: { height: term.rows, width: term.cols } });
  socket.onopen = () => {
    send({ version: 1, auth_token: token.value });
    size();
  };
  socket.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    const data = frame.stdout?.data ?? frame.stderr?.data;
    if (data) term.write(decode(data));
    if (frame.exited) exit = `The command ended with code ${frame.result?.exit_code ?? 0}.`;
  };
  socket.onclose = (event) => {
    ended(exit !== '' ? exit : event.reason || (event.code === CLOSED_NORMALLY ? 'The session ended.'
      : 'The connection was lost.'));
  };
  term.onData((text) => send({ stdin: { data: encode(new TextEncoder().encode(text)) } }));
  term.onBinary((text) => send({ stdin: { data: btoa(text) } }));
  term.onResize(size);
  return () => {
    socket.onclose = null;
    socket.close();
  };
}

/**
 * @param {{alloc: Record<string, any>, task: string, command: string, open: boolean,
 *   ended: (said: string) => void}} props
 */
function Screen({ alloc, task, command, open, ended }) {
  const { ready, error } = useTerminal();
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef(/** @type {Term | null} */ (null));
  const leave = useRef(() => {});
  useColours(() => { if (shown.current) shown.current.options.theme = theme(); });
  useEffect(() => {
    const into = box.current;
    if (!ready || into === null) return undefined;
    const term = new window.Terminal({ documentOverride: ours, fontSize: 13, cursorBlink: false, scrollback: 5000,
      fontFamily: colour('mono'), minimumContrastRatio: 4.5, theme: theme(), screenReaderMode: false });
    const fit = new window.FitAddon.FitAddon();
    term.loadAddon(fit);
    term.open(into);
    fit.fit();
    shown.current = term;
    // The terminal takes the Tab key: this is the way out of it with the keyboard.
    term.attachCustomKeyEventHandler((event) => {
      if (event.key !== 'Escape' || !event.shiftKey) return true;
      document.getElementById('exec-end')?.focus();
      return false;
    });
    term.focus();
    leave.current = join(term, { alloc, task, command }, ended);
    const sizes = new ResizeObserver(() => fit.fit());
    sizes.observe(into);
    return () => {
      sizes.disconnect();
      leave.current();
      shown.current = null;
      // An opened terminal still measures itself in a timer, and fails if it is disposed before that.
      window.setTimeout(() => term.dispose());
    };
  }, [ready]);
  useEffect(() => {
    if (!open) leave.current();
  }, [open]);
  return html`${error === '' ? null : html`<p class="bad">${error}</p>`}
    <div class="console" ref=${box}></div>`;
}

/** @param {{alloc: Record<string, any>}} props */
export function Exec({ alloc }) {
  const tasks = Object.entries(alloc.TaskStates ?? {}).filter(([, state]) => state.State === 'running')
    .map(([name]) => name);
  const past = useSignal(at) !== null;
  const [chosen, choose] = useState('');
  const [command, setCommand] = useState('/bin/sh');
  const [session, begin] = useState(/** @type {{number: number, task: string, command: string} | null} */ (null));
  const [said, say] = useState('');
  if (past) return html`<${Card} title="Exec"><${Empty}>Commands run in the present only.<//><//>`;
  const task = tasks.includes(chosen) ? chosen : tasks[0] ?? '';
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    say('');
    begin({ number: (session?.number ?? 0) + 1, task, command });
  };
  const runs = session !== null && said === '';
  if (session === null && tasks.length === 0) {
    return html`<${Card} title="Exec"><${Empty}>No task runs.<//><//>`;
  }
  return html`<form class="tools" onSubmit=${submit}>
      <select aria-label="Task" value=${task} disabled=${runs} onChange=${(/** @type {any} */ e) =>
        choose(e.target.value)}>${tasks.map((name) => html`<option value=${name}>${name}</option>`)}</select>
      <input class="grow mono" aria-label="Command" required value=${command} disabled=${runs}
        onInput=${(/** @type {any} */ e) => setCommand(e.target.value)} />
      <button type="submit" class="main"
        disabled=${runs || task === ''}>${session === null ? 'Run' : 'Run again'}</button>
      <button type="button" id="exec-end" disabled=${!runs} onClick=${() => say('The session was ended here.')}>
        End</button>
      <span class="dim" role="status">${said}</span></form>
    ${session === null ? html`<p class="dim">The command runs in the task, with its rights and environment. What is typed
      is not recorded. <kbd>Shift</kbd> <kbd>Esc</kbd> leaves the terminal.</p>`
      : html`<${Screen} key=${session.number} alloc=${alloc} task=${session.task} command=${session.command}
        open=${runs} ended=${say} />`}`;
}
