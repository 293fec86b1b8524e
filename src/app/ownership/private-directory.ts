import { chmodSync, existsSync, lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { inWords } from '../../contract/system-fault.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { SOCKET_FILE } from './owner-files.ts'

/** Bytes that `sun_path` holds besides its terminator: 108 on Linux, 104 on macOS and the BSDs. */
const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103

/** Makes the data directory private to its user. Returns its real path, so that all spellings of it are one. */
export function prepareDataDir(dataDir: string): string {
  return privateDirectory(dataDir, 'data directory')
}

function privateDirectory(path: string, what: string): string {
  try {
    makeDirectories(path)
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

/** Node's own `recursive` never ends where a folder that exists cannot have another, as in /proc. */
function makeDirectories(path: string): void {
  if (existsSync(path)) return
  makeDirectories(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have been quicker. A broken link is refused.
    if (!existsSync(path)) throw error
  }
}

const refused = (path: string, what: string, reason: string): AppError =>
  new AppError('ERR_INIT_FAILED', `The ${what} ${path} ${reason}. Choose another with --data-dir, or correct it.`, {
    path,
  })

/**
 * The path for a new owner's socket. If the data directory's path is too long for a socket, a private directory of the user
 * replaces it; others find it through the owner's record.
 */
export function newSocketPath(dataDir: string, runtimeDir: string | undefined): string {
  const own = join(dataDir, SOCKET_FILE)
  if (Buffer.byteLength(own) <= SOCKET_PATH_BYTES_MAX) return own
  const name = `${sha256Hex(dataDir).slice(0, 16)}.sock`
  const base =
    runtimeDir === undefined ? join(tmpdir(), `castellan-${process.geteuid?.() ?? 0}`) : join(runtimeDir, 'castellan')
  const short = join(privateDirectory(base, 'runtime directory'), name)
  if (Buffer.byteLength(short) > SOCKET_PATH_BYTES_MAX) {
    throw refused(dataDir, 'data directory', `has a path that is too long for a socket, and so does ${base}`)
  }
  return short
}
