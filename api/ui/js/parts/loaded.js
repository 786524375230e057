//! Libraries that only some pages need: scripts and their styles, loaded when the first of these pages is shown.

import { useEffect, useState } from '../lib.js';

const VENDOR = '/ui/vendor';

/** @type {Map<string, Promise<void>>} */
const loading = new Map();

/** Adds one file to the page, once. @param {string} name */
function add(name) {
  let found = loading.get(name);
  if (found === undefined) {
    found = new Promise((done, failed) => {
      const isStyle = name.endsWith('.css');
      const element = document.createElement(isStyle ? 'link' : 'script');
      if (element instanceof HTMLLinkElement) {
        element.rel = 'stylesheet';
        element.href = `${VENDOR}/${name}`;
      } else element.src = `${VENDOR}/${name}`;
      element.onload = () => done();
      element.onerror = () => {
        loading.delete(name);
        element.remove();
        failed(new Error(`${name} cannot be loaded`));
      };
      document.head.append(element);
    });
    loading.set(name, found);
  }
  return found;
}

const CHART = ['uplot-1.6.32.css', 'uplot-1.6.32.js'];
const TERMINAL = ['xterm-5.5.0.css', 'xterm-5.5.0.js', 'xterm-addon-fit-0.10.0.js'];

/** @param {string[]} names @returns {{ready: boolean, error: string}} */
function useFiles(names) {
  const [state, set] = useState({ ready: false, error: '' });
  useEffect(() => {
    let there = true;
    Promise.all(names.map(add)).then(
      () => there && set({ ready: true, error: '' }),
      (error) => there && set({ ready: false, error: error.message }));
    return () => { there = false; };
  }, []);
  return state;
}

/** Whether `window.uPlot` is there. */
export const useChart = () => useFiles(CHART);
/** Whether `window.Terminal` and `window.FitAddon` are there. */
export const useTerminal = () => useFiles(TERMINAL);

/** Colour of the page by the name of its variable, such as `accent`. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Calls when the colours of the page change: the choice of the page, or that of the system.
 * @param {() => void} run
 */
export function useColours(run) {
  useEffect(() => {
    const system = window.matchMedia('(prefers-color-scheme: dark)');
    const observer = new MutationObserver(run);
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    system.addEventListener('change', run);
    return () => {
      observer.disconnect();
      system.removeEventListener('change', run);
    };
  }, []);
}
