import { chmodSync, lstatSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { inWords } from '../../contract/system-fault.ts'
import { sha256Hex } from '../../kernel/hash.ts'

const SOCKET_FILE = 'owner.sock'
const OWNER_FILE = 'owner.json'
/** Bytes that `sun_path` holds beside its end mark: 108 on Linux, 104 on macOS and the BSDs. */
const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103

type OwnerRecord = Readonly<{ pid: number; version: string; socket: string }>

/** Makes the data directory private to its user. Gives its real path, so that all spellings of it are one. */
export function prepareDataDir(dataDir: string): string {
  return privateDirectory(dataDir, 'data directory')
}

function privateDirectory(path: string, what: string): string {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    const real = realpathSync(path)
    const status = lstatSync(real)
    const user = process.geteuid?.() ?? status.uid
    if (!status.isDirectory()) throw refused(path, what, 'is not a directory')
    if (status.uid !== user && user !== 0) throw refused(path, what, 'belongs to another user')
    if ((status.mode & 0o077) !== 0) chmodSync(real, 0o700)
    return real
  } catch (error) {
    if (error instanceof AppError) throw error
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw refused(path, what, 'is not a directory')
    throw inWords(error, `The ${what} ${path}`)
  }
}

const refused = (path: string, what: string, reason: string): AppError =>
  new AppError('ERR_INIT_FAILED', `The ${what} ${path} ${reason}. Choose another with --data-dir, or correct it.`, {
    path,
  })

/**
 * The path for a new owner's socket. Where the data directory's own path is too long for a socket, a private directory of
 * the user takes its place; others find it through the owner's record.
 */
export function newSocketPath(dataDir: string, runtimeDir: string | undefined): string {
  const own = join(dataDir, SOCKET_FILE)
  if (Buffer.byteLength(own) <= SOCKET_PATH_BYTES_MAX) return own
  const name = `${sha256Hex(dataDir).slice(0, 16)}.sock`
  const base =
    runtimeDir === undefined ? join(tmpdir(), `castellan-${process.geteuid?.() ?? 0}`) : join(runtimeDir, 'castellan')
  const short = join(privateDirectory(base, 'runtime directory'), name)
  if (Buffer.byteLength(short) > SOCKET_PATH_BYTES_MAX) {
    throw refused(dataDir, 'data directory', `has a path too long for a socket, and so has ${base}`)
  }
  return short
}

/** Only the holder of the lock calls this: whatever lies at the path is then left over from an owner that is gone. */
export function removeStaleSocket(path: string): void {
  rmSync(path, { force: true })
}

/** Replaces the record in one step, so that a reader sees the old or the new one. */
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

/** The last owner's record; it may have died since. */
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

/** After an orderly end, while the lock is still held. */
export function removeOwnerRecord(dataDir: string): void {
  rmSync(join(dataDir, OWNER_FILE), { force: true })
}
