import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'

export const SOCKET_FILE = 'owner.sock'
const OWNER_FILE = 'owner.json'

type OwnerRecord = Readonly<{ pid: number; version: string; socket: string }>

/** Only the holder of the lock calls this: any socket at the path belongs to an owner that has ended. */
export function removeStaleSocket(path: string): void {
  rmSync(path, { force: true })
}

/** Replaces the record atomically. */
export function writeOwnerRecord(dataDir: string, record: OwnerRecord): void {
  const path = join(dataDir, OWNER_FILE)
  const temporary = `${path}.${process.pid}`
  const socket = record.socket === join(dataDir, SOCKET_FILE) ? SOCKET_FILE : record.socket
  try {
    writeFileSync(temporary, `${JSON.stringify({ ...record, socket })}\n`, { mode: 0o600 })
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/** The last owner's record; that owner may have died. */
export function readOwnerRecord(dataDir: string): OwnerRecord | undefined {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(join(dataDir, OWNER_FILE), 'utf8'))
  } catch {
    return undefined
  }
  const { pid, version, socket } = (content ?? {}) as Record<string, unknown>
  if (typeof pid !== 'number' || typeof version !== 'string' || typeof socket !== 'string') return undefined
  if (!isAbsolute(socket) && socket !== SOCKET_FILE) return undefined
  return { pid, version, socket: isAbsolute(socket) ? socket : join(dataDir, socket) }
}

/** After an orderly shutdown, while the lock is still held. */
export function removeOwnerRecord(dataDir: string): void {
  rmSync(join(dataDir, OWNER_FILE), { force: true })
}
