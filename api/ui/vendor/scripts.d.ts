// Types of the parts that the page uses of libraries that are scripts.
interface Plot {
  setData(data: (number | null)[][]): void;
  setSize(size: { width: number, height: number }): void;
  destroy(): void;
  cursor: { idx: number | null };
}
interface Term {
  cols: number;
  rows: number;
  open(into: HTMLElement): void;
  write(data: Uint8Array | string): void;
  loadAddon(addon: unknown): void;
  onData(take: (text: string) => void): void;
  onBinary(take: (text: string) => void): void;
  onResize(take: (size: { cols: number, rows: number }) => void): void;
  attachCustomKeyEventHandler(take: (event: KeyboardEvent) => boolean): void;
  focus(): void;
  dispose(): void;
  options: Record<string, unknown>;
}
interface Window {
  uPlot: new (options: object, data: (number | null)[][], into: HTMLElement) => Plot;
  Terminal: new (options: object) => Term;
  FitAddon: { FitAddon: new () => { fit(): void } };
}
