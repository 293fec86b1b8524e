import { readFileSync, unwatchFile, watchFile } from 'node:fs'
import type { Socket } from 'node:net'
import { createSecureContext, createServer, type Server } from 'node:tls'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Logger } from '../kernel/logger.ts'

/** The two PEM files of a server: its certificate chain, and its private key. */
export type TlsFiles = Readonly<{ cert: string; key: string }>

/**
 * A server that emits connections after the TLS handshake. When a file changes, new connections use the new certificate and open
 * ones keep theirs. An unusable pair (a half-written file, a key of another certificate) is logged and changes nothing, so that a
 * renewal may replace one file after the other.
 */
export function createTlsListener(files: TlsFiles, logger: Logger, onConnection: (socket: Socket) => void): Server {
  const listener = createServer(
    {
      ...readPair(files),
      allowHalfOpen: true,
      pauseOnConnect: true,
      noDelay: true,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: limits.httpHeadersTimeoutMs,
    },
    onConnection,
  )
  listener.maxConnections = limits.httpConnectionsMax
  const reload = (): void => {
    try {
      listener.setSecureContext(readPair(files))
      logger.info('TLS certificate reloaded', { file: files.cert })
    } catch (error) {
      logger.warn('changed TLS files cannot be used; the previous certificate stays in use', { cause: String(error) })
    }
  }
  // Polled: a link that is pointed elsewhere, as renewals do, triggers no folder watcher.
  for (const file of [files.cert, files.key]) {
    watchFile(file, { interval: limits.tlsPollMs, persistent: false }, reload)
  }
  listener.once('close', () => {
    for (const file of [files.cert, files.key]) unwatchFile(file, reload)
  })
  return listener
}

/** Throws ERR_CONFIG_INVALID that names the file, or says that the two do not match. */
function readPair(files: TlsFiles): Readonly<{ cert: Buffer; key: Buffer }> {
  const pair = { cert: readPem('tls_cert', files.cert), key: readPem('tls_key', files.key) }
  try {
    createSecureContext(pair)
    return pair
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `tls_cert, tls_key: must be a PEM certificate and its unencrypted private key (${reason}).`
    throw new AppError('ERR_CONFIG_INVALID', message, { field: 'tls_cert' }, { cause })
  }
}

function readPem(field: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `${field}: the file ${path} cannot be read (${code}).`,
      { field },
      { cause },
    )
  }
}
