import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, isoTime } from '../kernel/clock.ts'

/** The log of a workspace. Nothing depends on it, so a full disk stops no workspace. */
export type WorkspaceLog = Readonly<{
  note(line: string): void
  /** Also writes the line to the error log, which can be read separately. */
  error(line: string): void
}>

type WorkspaceLogs = Readonly<{
  of(id: string): WorkspaceLog
  /** The last lines of the whole log, and of the error log. */
  read(id: string, lines: number): Promise<Readonly<{ console: string; stderr: string }>>
  remove(id: string): Promise<void>
  workspaceIds(): Promise<readonly string[]>
}>

const LOG_BYTES_MAX = 256 * 1024
const EXTENSION = '.log'
const ERROR_PREFIX = 'error: '
const isError = (line: string): boolean => line.startsWith(ERROR_PREFIX, line.indexOf(' ') + 1)

/** One file for each workspace, with one line for each event. */
export async function openWorkspaceLogs(folder: string, clock: Clock): Promise<WorkspaceLogs> {
  await mkdir(folder, { recursive: true })
  const pathOf = (id: string): string => join(folder, `${id}${EXTENSION}`)
  return {
    of(id) {
      const note = (line: string): void =>
        appendLine(pathOf(id), `${isoTime(clock.nowMs())} ${line.replace(/\s+/g, ' ')}\n`)
      return { note, error: (line) => note(`${ERROR_PREFIX}${line}`) }
    },
    async read(id, lines) {
      const all = (await readFile(pathOf(id), 'utf8').catch(() => '')).trimEnd().split('\n')
      return { console: all.slice(-lines).join('\n'), stderr: all.filter(isError).slice(-lines).join('\n') }
    },
    remove: (id) => rm(pathOf(id), { force: true }),
    workspaceIds: async () => (await readdir(folder)).map((name) => name.slice(0, -EXTENSION.length)),
  }
}

/** A file that is too large is cut to its newer half. */
function appendLine(path: string, line: string): void {
  try {
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (size > LOG_BYTES_MAX) writeFileSync(path, readFileSync(path).subarray(-LOG_BYTES_MAX / 2))
    appendFileSync(path, line, { mode: 0o600 })
  } catch {
    // A failure to log must not stop the workspace.
  }
}
