// Types of the parts that the page uses; the vendored file has none.
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(tree: any, root: Element): void;
export function useState<T>(begin: T): [T, (next: T | ((old: T) => T)) => void];
export function useEffect(run: () => void | (() => void), inputs?: any[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: any[]): void;
export function useRef<T>(begin: T): { current: T };
export function useMemo<T>(make: () => T, inputs: any[]): T;
export function useErrorBoundary(caught: (error: Error) => void): [Error | undefined, () => void];
