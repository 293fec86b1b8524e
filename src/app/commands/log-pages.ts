import type { McpClient } from '../../cli/mcp-client.ts'

export type LogPage = Readonly<{
  /** Lines of an export, each with its line feed. */
  text: string
  /** The number of entries written with this page. */
  entries: number
  size: number
  /** The key of the log, as the log itself names it. */
  key: string
}>

/** The whole log as an export, of one size from beginning to end. */
export async function* logPages(client: McpClient): AsyncGenerator<LogPage> {
  let size: number | undefined
  let key = ''
  for (let from: number | null = 0; from !== null; ) {
    const { answer } = await client.callTool('log_export', { from, ...(size === undefined ? {} : { size }) })
    const lines = answer['lines'] as string[]
    if (size === undefined) {
      size = answer['size'] as number
      key = (JSON.parse(lines[0]!) as { key: string }).key
    }
    from = answer['next_from'] as number | null
    yield { text: lines.map((line) => `${line}\n`).join(''), entries: from ?? size, size, key }
  }
}
