/**
 * An answer in the making, as far as a stream needs it: what `ServerResponse` has, with the same meaning, so that the writer need not know
 * whether `node:http` sends it.
 */
export interface Answer {
  readonly headersSent: boolean
  /** The connection is closed. */
  readonly destroyed: boolean
  /** The answer was written to its end. */
  readonly writableFinished: boolean
  /** It is over, complete or not. The event `close` says so. */
  readonly closed: boolean
  readonly writableNeedDrain: boolean
  /** Alternating names and values. They are sent with the first part of the body, or by `flushHeaders`. */
  writeHead(status: number, headers: string[]): unknown
  flushHeaders(): void
  /** Whether bytes may change once `write` or `end` has returned. `node:http` keeps them until they are sent. */
  readonly copiesBytes?: boolean
  /** False if the client reads more slowly; `drain` says when it has caught up. */
  write(bytes: Buffer): boolean
  end(): unknown
  end(bytes: Buffer): unknown
  end(text: string, encoding: 'latin1' | 'utf8'): unknown
  destroy(): unknown
  on(event: 'close' | 'drain', listener: () => void): unknown
  off(event: 'close' | 'drain', listener: () => void): unknown
}
