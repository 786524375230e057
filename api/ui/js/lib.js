//! Preact, htm and signals in one place, and the hook that joins them. Every text goes through Preact,
//! which escapes it.

import {
  html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useErrorBoundary,
} from '../vendor/htm-preact-3.1.1.js';
import { signal, computed, effect, batch, untracked } from '../vendor/signals-core-1.14.5.js';

export {
  html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useErrorBoundary, signal, computed, effect,
  batch, untracked,
};

/**
 * Value of a signal; the component renders again when it changes.
 * @template T
 * @param {{value: T}} source
 * @returns {T}
 */
export function useSignal(source) {
  const [, again] = useState(0);
  const { value } = source;
  // Effects run after the browser has painted: the value may have changed since it was drawn.
  const drawn = useRef(value);
  drawn.current = value;
  useEffect(() => effect(() => {
    if (source.value !== drawn.current) again((/** @type {number} */ n) => n + 1);
  }), [source]);
  return value;
}

/**
 * A value that outlives the page, in the browser's own storage.
 * @param {string} key
 * @param {string} otherwise
 */
export function kept(key, otherwise) {
  const name = `songline.${key}`;
  let begin = otherwise;
  try {
    begin = localStorage.getItem(name) ?? otherwise;
  } catch { /* storage is switched off: the value lives as long as the page */ }
  const value = signal(begin);
  effect(() => {
    try {
      localStorage.setItem(name, value.value);
    } catch { /* as above */ }
  });
  return value;
}
