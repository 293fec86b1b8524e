import type { FlowLines } from '../../mcp/line-transport.ts'

/**
 * Two ends in one process; a line is delivered synchronously. Closing one end notifies the other, which may still send until it
 * closes too.
 */
export function createLinePair(): readonly [FlowLines, FlowLines] {
  type End = { handler?: (line: string) => void; early: string[]; onClose?: () => void; isClosed: boolean }
  const ends: readonly [End, End] = [
    { early: [], isClosed: false },
    { early: [], isClosed: false },
  ]
  const transport = (own: End, other: End): FlowLines => ({
    onLine(handler) {
      own.handler = handler
      const { early } = own
      own.early = []
      for (const line of early) handler(line)
    },
    send(line) {
      if (own.isClosed) return true
      if (other.handler === undefined) other.early.push(line)
      else other.handler(line)
      return true
    },
    onClose(handler) {
      own.onClose = handler
      if (other.isClosed) handler()
    },
    onOversizedLine() {},
    onDrain() {},
    pause() {},
    resume() {},
    async close() {
      if (own.isClosed) return
      own.isClosed = true
      other.onClose?.()
    },
  })
  return [transport(ends[0], ends[1]), transport(ends[1], ends[0])]
}
