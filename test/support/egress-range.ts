import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import { createServer as createTlsServer } from 'node:https'
import {
  type AddressInfo,
  connect,
  createServer as createNetServer,
  type Server as NetServer,
  type Socket,
} from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { systemClock } from '../../src/kernel/clock.ts'
import { type Logger, silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import {
  createEgressProxy,
  type EgressProxy,
  type EgressProxyOptions,
} from '../../src/supervisor/egress/create-egress-proxy.ts'
import type { EgressPolicy } from '../../src/supervisor/egress/egress-policy.ts'
import { answering } from './answering.ts'

const run = promisify(execFile)

/** A proxy, upstream servers and raw clients, all on loopback. Names end in `.test` and lead to 127.0.0.1. */
export type EgressRange = Readonly<{
  directory: string
  proxy: EgressProxy & Readonly<{ port: number }>
  /** The port of a listener whose connections the proxy takes for those to a host, on `asPort` from now on. */
  direct(asPort: number): number
  /** What was refused, each as its target and the reason. */
  refused: readonly string[]
  /** The policy of 127.0.0.1, from the next request on. */
  setPolicy(policy: EgressPolicy | undefined): void
  /** Leave to go to these targets, private as they are. */
  allow(...targets: readonly string[]): EgressPolicy
  httpUpstream(listener: RequestListener): Promise<Upstream>
  /** Its certificate is for `names`, by an authority that the proxy trusts unless `isTrusted` is false. */
  httpsUpstream(names: readonly string[], listener: RequestListener, isTrusted?: boolean): Promise<Upstream>
  http2Upstream(names: readonly string[], onStream: (stream: ServerHttp2Stream) => void): Promise<Upstream>
  authorityPath: string
  lookups: readonly string[]
  close(): Promise<void>
}>
type Upstream = Readonly<{ port: number; server: NetServer; connections(): number }>

export type RangeOptions = Readonly<{ logger?: Logger }> &
  Partial<Pick<EgressProxyOptions, 'limits' | 'resolve' | 'allowEncryptedClientHello'>>

export async function createEgressRange(options: RangeOptions = {}): Promise<EgressRange> {
  const directory = await mkdtemp(join(tmpdir(), 'castellan-egress-'))
  for (const name of ['trusted', 'unrelated']) {
    const { key, certificate } = await authorityOf(name)
    await writeFile(join(directory, `${name}.key`), key)
    await writeFile(join(directory, `${name}.pem`), certificate)
  }
  let policy: EgressPolicy | undefined
  const lookups: string[] = []
  const refused: string[] = []
  let directPort = 443
  const resolve = options.resolve ?? (async () => ['127.0.0.1'])
  const made = await createEgressProxy({
    policyOf: (address) => (address === '127.0.0.1' ? policy : undefined),
    caDirectory: join(directory, 'proxy-authority'),
    upstreamCa: await readFile(join(directory, 'trusted.pem'), 'utf8'),
    logger: options.logger ?? silentLogger,
    clock: systemClock,
    random: systemRandom,
    connect: connectHere,
    onRefused: (_client, target, reason) => void refused.push(`${target} ${reason}`),
    ...(options.limits === undefined ? {} : { limits: options.limits }),
    ...(options.allowEncryptedClientHello === undefined ? {} : { allowEncryptedClientHello: true }),
    resolve: (host) => {
      lookups.push(host)
      return resolve(host)
    },
  })
  const listeners = [
    createNetServer({ allowHalfOpen: true }, (socket) => made.take(socket, '127.0.0.1')),
    createNetServer({ allowHalfOpen: true }, (socket) => made.takeDirect(socket, '127.0.0.1', directPort)),
  ]
  const [port, directListenerPort] = await Promise.all(listeners.map(listen))
  const close = async (): Promise<void> => {
    for (const listener of listeners) listener.close()
    await made.close()
  }
  const proxy = { ...made, port: port!, close }
  const authorityPath = join(directory, 'seen-by-workspaces.pem')
  await writeFile(authorityPath, proxy.caCertificatePem ?? '')
  const upstreams: NetServer[] = []
  const sockets = new Set<Socket>()
  const track = async (server: NetServer): Promise<Upstream> => {
    upstreams.push(server)
    const mine = new Set<Socket>()
    server.on('connection', (socket) => {
      // A proxy that is closed resets its connections, upgraded ones too.
      socket.on('error', () => {})
      for (const set of [mine, sockets]) {
        set.add(socket)
        socket.once('close', () => set.delete(socket))
      }
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return { port: (server.address() as AddressInfo).port, server, connections: () => mine.size }
  }
  return {
    directory,
    proxy,
    authorityPath,
    lookups,
    refused,
    direct: (asPort) => {
      directPort = asPort
      return directListenerPort!
    },
    setPolicy: (next) => {
      policy = next
    },
    allow: (...targets) => ({ domains: targets, credentials: [], allowPrivate: targets }),
    httpUpstream: (listener) => track(createServer(answering(async (...asked) => listener(...asked)))),
    httpsUpstream: async (names, listener, isTrusted = true) =>
      track(
        createTlsServer(
          await makeLeaf(directory, isTrusted ? 'trusted' : 'unrelated', names),
          answering(async (...asked) => listener(...asked)),
        ),
      ),
    http2Upstream: async (names, onStream) => {
      const server = createSecureServer(await makeLeaf(directory, 'trusted', names))
      server.on('stream', onStream)
      return track(server)
    },
    close: async () => {
      await proxy.close()
      for (const socket of sockets) socket.destroy()
      for (const server of upstreams) await new Promise((done) => server.close(done))
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const listen = (server: NetServer): Promise<number> =>
  new Promise((done) => server.listen(0, '127.0.0.1', () => done((server.address() as AddressInfo).port)))

/** From the network of this process. */
function connectHere(address: string, port: number, deadline: AbortSignal): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true })
    const settle = (outcome: Socket | undefined): void => {
      deadline.removeEventListener('abort', giveUp)
      socket.off('connect', succeed)
      if (outcome === undefined) socket.destroy()
      resolve(outcome)
    }
    const giveUp = (): void => settle(undefined)
    const succeed = (): void => settle(socket)
    socket.once('connect', succeed)
    // It stays for the life of the socket: its next owner listens for the close.
    socket.on('error', giveUp)
    if (deadline.aborted) giveUp()
    else deadline.addEventListener('abort', giveUp, { once: true })
  })
}

const keyOptions = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-config', '/dev/null']

/** Made once for a test file. */
const authorities = new Map<string, Promise<Readonly<{ key: string; certificate: string }>>>()

function authorityOf(name: string): Promise<Readonly<{ key: string; certificate: string }>> {
  const made = authorities.get(name) ?? makeAuthority(name)
  authorities.set(name, made)
  return made
}

export async function makeAuthority(name: string): Promise<Readonly<{ key: string; certificate: string }>> {
  const use = ['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=keyCertSign']
  const { stdout } = await run('openssl', [
    'req',
    '-x509',
    ...keyOptions,
    '-keyout',
    '-',
    '-subj',
    `/CN=${name}`,
    ...use,
  ])
  const begin = stdout.indexOf('-----BEGIN CERTIFICATE')
  return { key: stdout.slice(0, begin), certificate: stdout.slice(begin) }
}

/** Its authority is in `directory`, as NAME.pem and NAME.key. */
export async function makeLeaf(directory: string, authority: string, names: readonly string[]) {
  const by = ['-CA', join(directory, `${authority}.pem`), '-CAkey', join(directory, `${authority}.key`)]
  const use = ['-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`]
  const argv = ['req', '-x509', ...keyOptions, '-keyout', '-', ...by, '-subj', '/CN=leaf', ...use]
  const { stdout } = await run('openssl', argv)
  return { key: stdout, cert: stdout }
}

export type RawAnswer = Readonly<{ status: number; head: string; body: string }>

/** Sends the text as it is, and reads until the proxy hangs up. */
export async function exchange(port: number, text: string): Promise<RawAnswer> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  return readAnswer(Buffer.concat(chunks).toString('latin1'))
}

function readAnswer(text: string): RawAnswer {
  const [head = '', ...rest] = text.split('\r\n\r\n')
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), head, body: rest.join('\r\n\r\n') }
}

/** Asks for a tunnel. The socket is there when the answer was 200. */
export async function openTunnelTo(
  port: number,
  authority: string,
): Promise<Readonly<{ answer: RawAnswer; socket: Socket }>> {
  const socket = connect(port, '127.0.0.1')
  // What reads from it fails with the error; between two reads nobody does.
  socket.on('error', () => {})
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  let text = ''
  while (!text.includes('\r\n\r\n')) {
    const chunk = await nextChunk(socket)
    if (chunk === undefined) break
    text += chunk.toString('latin1')
  }
  return { answer: readAnswer(text), socket }
}

/** `undefined` at the end of the stream. */
export function nextChunk(socket: Socket): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (done: () => void) => () => {
      socket.off('readable', look).off('end', onEnd).off('close', onEnd).off('error', onError)
      done()
    }
    const look = (): void => {
      const chunk = socket.read() as Buffer | null
      if (chunk !== null) settle(() => resolve(chunk))()
    }
    const onEnd = settle(() => resolve(undefined))
    const onError = (error: Error): void => settle(() => reject(error))()
    if (socket.destroyed || socket.readableEnded) return resolve(undefined)
    socket.on('readable', look).once('end', onEnd).once('close', onEnd).once('error', onError)
    look()
  })
}

/** A TLS handshake inside a tunnel. Fails with the error that a client would show. */
export function secureTunnel(
  socket: Socket,
  options: Readonly<{ servername: string; ca: string; alpn?: string[] }>,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const secured = connectTls({
      socket,
      servername: options.servername,
      ca: options.ca,
      ...(options.alpn === undefined ? {} : { ALPNProtocols: options.alpn }),
    })
    secured.once('secureConnect', () => resolve(secured))
    secured.on('error', reject)
    secured.once('close', () => reject(new Error('closed before the handshake was done')))
  })
}

/** A request and its answer on a connection that is open already. The server is asked to close. */
export async function exchangeOn(socket: Socket, text: string): Promise<RawAnswer> {
  socket.write(text)
  const chunks: Buffer[] = []
  for (let chunk = await nextChunk(socket); chunk !== undefined; chunk = await nextChunk(socket)) chunks.push(chunk)
  return readAnswer(Buffer.concat(chunks).toString('latin1'))
}

export async function curl(
  argv: readonly string[],
): Promise<Readonly<{ code: number; stdout: string; stderr: string }>> {
  try {
    const { stdout, stderr } = await run('curl', ['-sS', '--max-time', '30', ...argv], { maxBuffer: 1 << 26 })
    return { code: 0, stdout, stderr }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { code, stdout, stderr }
  }
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
