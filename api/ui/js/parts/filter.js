//! Search of lists: a part of a name, or an expression of the API's filter language, which the server evaluates.

import { useGet } from '../api.js';
import { useMemo, useSignal } from '../lib.js';
import { namespace, versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

/** Whether a search text is an expression of the API's filter language. @param {string} text */
export const isExpression = (text) => /==|!=|\b(contains|matches|is empty|is not empty|in)\b/.test(text);

/**
 * Rows that match an expression, by `id`; null while the text is no expression.
 * @param {{path: string, topic: string, text: string, id: (row: Row) => string}} of
 * @returns {{matching: Set<string> | null, error: any}}
 */
export function useMatching({ path, topic, text, id }) {
  const space = useSignal(namespace);
  const is = isExpression(text);
  const got = useGet(is ? `${path}?namespace=${encodeURIComponent(space)}&filter=${encodeURIComponent(text)}` : null,
    useMemo(() => versionOf(topic), [topic]));
  const matching = useMemo(() => (is ? new Set((got.data ?? []).map(id)) : null), [is, got.data]);
  return { matching, error: is ? got.error : null };
}
