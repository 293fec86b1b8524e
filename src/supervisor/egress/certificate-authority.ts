import { execFile } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { chmod, mkdir, readFile, rename } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import { promisify } from 'node:util'
import { AppError } from '../../contract/app-error.ts'
import type { Clock } from '../../kernel/clock.ts'

/**
 * The certificate authority that signs leaf certificates for hosts whose TLS the proxy terminates. Its key is in one file that
 * only the supervisor can read; the key of a leaf is never stored. Only workloads that are given `certificatePem` trust it.
 */
export type CertificateAuthority = Readonly<{
  certificatePem: string
  /** The context of a TLS server that presents a certificate for `host`. */
  contextFor(host: string): Promise<SecureContext>
}>

type CertificateAuthorityDeps = Readonly<{ directory: string; clock: Clock; leavesMax: number }>

const run = promisify(execFile)
const OPENSSL_TIMEOUT_MS = 20_000
const DAY_MS = 86_400_000
const AUTHORITY_DAYS = 3650
/** An authority that expires sooner is replaced at the next start, while workspaces still accept its certificate. */
const AUTHORITY_DAYS_LEFT_MIN = 60
const LEAF_DAYS = 30
const LEAF_CACHE_DAYS = 7

const keyOptions = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-sha256']

export async function openCertificateAuthority(deps: CertificateAuthorityDeps): Promise<CertificateAuthority> {
  const paths = { key: join(deps.directory, 'authority.key'), certificate: join(deps.directory, 'authority.pem') }
  await mkdir(deps.directory, { recursive: true, mode: 0o700 })
  if (!(await isUsable(paths, deps.clock.nowMs()))) await makeAuthority(paths)
  const certificatePem = await readFile(paths.certificate, 'utf8')
  const leaves = new Map<string, Readonly<{ context: Promise<SecureContext>; keepUntilMs: number }>>()

  return {
    certificatePem,
    contextFor(host) {
      const retained = leaves.get(host)
      leaves.delete(host)
      const isFresh = retained !== undefined && retained.keepUntilMs > deps.clock.nowMs()
      const leaf = isFresh
        ? retained
        : { context: makeLeaf(host, paths), keepUntilMs: deps.clock.nowMs() + LEAF_CACHE_DAYS * DAY_MS }
      leaves.set(host, leaf)
      if (leaves.size > deps.leavesMax) leaves.delete(leaves.keys().next().value!)
      leaf.context.catch(() => {
        if (leaves.get(host) === leaf) leaves.delete(host)
      })
      return leaf.context
    },
  }
}

type Paths = Readonly<{ key: string; certificate: string }>

/** Both files exist, match, and are valid for long enough. Otherwise they are created again. */
async function isUsable(paths: Paths, nowMs: number): Promise<boolean> {
  try {
    const certificate = new X509Certificate(await readFile(paths.certificate))
    const key = createPrivateKey(await readFile(paths.key))
    await chmod(paths.key, 0o600)
    const leftMs = certificate.validToDate.getTime() - nowMs
    return certificate.ca && certificate.checkPrivateKey(key) && leftMs > AUTHORITY_DAYS_LEFT_MIN * DAY_MS
  } catch {
    return false
  }
}

/**
 * Written to a temporary folder, then renamed file by file: a half-written file is never found, and a pair that does not match is
 * replaced.
 */
async function makeAuthority(paths: Paths): Promise<void> {
  const fresh = { key: `${paths.key}.new`, certificate: `${paths.certificate}.new` }
  await openssl([
    ...['req', '-x509', '-config', '/dev/null', ...keyOptions, '-days', `${AUTHORITY_DAYS}`],
    ...['-subj', '/CN=Castellan egress authority', '-keyout', fresh.key, '-out', fresh.certificate],
    ...['-addext', 'basicConstraints=critical,CA:TRUE,pathlen:0'],
    ...['-addext', 'keyUsage=critical,keyCertSign,cRLSign', '-addext', 'subjectKeyIdentifier=hash'],
  ])
  await chmod(fresh.key, 0o600)
  await rename(fresh.key, paths.key)
  await rename(fresh.certificate, paths.certificate)
}

/** `host` is a validated name or address, so it needs no escaping in the extension. */
async function makeLeaf(host: string, paths: Paths): Promise<SecureContext> {
  const name = isIP(host) === 0 ? `DNS:${host}` : `IP:${host}`
  const pem = await openssl([
    ...['req', '-x509', '-config', '/dev/null', ...keyOptions, '-days', `${LEAF_DAYS}`, '-keyout', '-'],
    ...['-CA', paths.certificate, '-CAkey', paths.key, '-subj', '/CN=Castellan egress'],
    ...['-addext', `subjectAltName=${name}`, '-addext', 'basicConstraints=critical,CA:FALSE'],
    ...['-addext', 'keyUsage=critical,digitalSignature', '-addext', 'extendedKeyUsage=serverAuth'],
    ...['-addext', 'subjectKeyIdentifier=hash', '-addext', 'authorityKeyIdentifier=keyid'],
  ])
  return createSecureContext({ key: pem, cert: pem, minVersion: 'TLSv1.2' })
}

async function openssl(argv: readonly string[]): Promise<string> {
  try {
    return (await run('openssl', argv, { timeout: OPENSSL_TIMEOUT_MS })).stdout
  } catch (cause) {
    const message = 'The openssl program could not create a certificate. Install OpenSSL 3.0 or newer.'
    throw new AppError('ERR_INIT_FAILED', message, {}, { cause })
  }
}
