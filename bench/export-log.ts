import { execFile } from 'node:child_process'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Connection, callTool } from './client.ts'
import { castellanCommand } from './launch.ts'

export type ExportedLog = Readonly<{ file: string; key: string; entries: number }>

/** Writes the whole log into a file, page by page, as the description of `log_export` says. */
export const exportLog = async (connection: Connection, directory: string): Promise<ExportedLog> => {
  const file = join(directory, 'log.jsonl')
  const handle = await open(file, 'w')
  let header: { key: string; size: number } | undefined
  try {
    let asked: Record<string, unknown> = {}
    for (;;) {
      const page = await callTool(connection, 'log_export', asked)
      const lines = page['lines'] as string[]
      header ??= JSON.parse(lines[0] ?? '') as { key: string; size: number }
      await handle.write(lines.map((line) => `${line}\n`).join(''))
      if (page['next_from'] === null) break
      asked = { from: page['next_from'], size: page['size'] }
    }
  } finally {
    await handle.close()
  }
  return { file, key: header.key, entries: header.size }
}

/** Rejects when the verifier does not accept the export. */
export const verifyExport = async ({ file, key }: ExportedLog): Promise<void> => {
  await promisify(execFile)(castellanCommand, ['verify', file, '--key', key])
}
