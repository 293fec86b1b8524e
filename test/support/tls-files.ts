import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type TlsPair = Readonly<{ cert: string; key: string; ca: string }>

/** A self-signed certificate for this machine, made by openssl; `name` tells two of them apart. */
export function makeTlsPair(directory: string, name: string): TlsPair {
  const cert = join(directory, `${name}.pem`)
  const key = join(directory, `${name}.key`)
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1'
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${name}`, '-addext', names, '-keyout', key, '-out', cert],
    ],
    { stdio: 'ignore' },
  )
  return { cert, key, ca: readFileSync(cert, 'utf8') }
}
