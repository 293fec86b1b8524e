import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createServer as createNetServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeAuthority, makeLeaf } from './egress-range.ts'
import { addElsewhere } from './network-bench.ts'

type SeenRequest = Readonly<{ host: string; path: string; authorization: string | undefined }>

/** The internet of a test: one address, a name server, and a web server for every name below `castellan.test`. */
export type PublicSide = Readonly<{
  /** PEM file of the authority that its certificates come from. */
  authorityFile: string
  /** What reached the web server. */
  seen: SeenRequest[]
  /** From here on it can be reached. */
  appear(): void
  disappear(): void
  close(): Promise<void>
}>

export type PublicSideOptions = Readonly<{
  address: string
  /** Further names, and the addresses that the name server gives them. */
  names?: Readonly<Record<string, string>>
  answer: RequestListener
}>

const ZONE = 'castellan.test'

/** This needs root: the ports are 53, 80 and 443. */
export async function openPublicSide(options: PublicSideOptions): Promise<PublicSide> {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-public-'))
  const authority = await makeAuthority('public side of a test')
  writeFileSync(join(directory, 'authority.key'), authority.key)
  writeFileSync(join(directory, 'authority.pem'), authority.certificate)
  const leaf = await makeLeaf(directory, 'authority', [ZONE, `*.${ZONE}`])
  const seen: SeenRequest[] = []
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const { host = '', authorization } = request.headers
    seen.push({ host, path: request.url ?? '', authorization })
    options.answer(request, response)
  }
  let remove: (() => void) | undefined = addElsewhere(options.address)
  const nameServer = await openNameServer(options)
  const servers: Server[] = [createServer(listener), createTlsServer(leaf, listener)]
  for (const [index, server] of servers.entries()) {
    await new Promise<void>((resolve) => server.listen([80, 443][index], options.address, resolve))
  }
  const disappear = (): void => {
    remove?.()
    remove = undefined
  }
  disappear()
  return {
    authorityFile: join(directory, 'authority.pem'),
    seen,
    appear() {
      remove ??= addElsewhere(options.address)
    },
    disappear,
    async close() {
      disappear()
      nameServer.close()
      for (const server of servers) {
        ;(server as ReturnType<typeof createServer>).closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** A name server at an address of this machine, on port 53. What does not fit in a datagram comes over a connection. */
export async function serveNames(
  address: string,
  names: Readonly<Record<string, readonly string[]>> | ((name: string) => readonly string[] | undefined),
): Promise<AsyncDisposable & Readonly<{ close(): void }>> {
  const find = typeof names === 'function' ? names : (name: string) => names[name]
  const datagrams = createSocket('udp4')
  datagrams.on('message', (query, peer) => {
    datagrams.send(reply(query, find(readName(query)), 512), peer.port, peer.address)
  })
  const streams = createNetServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (query: Buffer) => {
      const answer = reply(query.subarray(2), find(readName(query.subarray(2))), 65_535)
      const length = Buffer.alloc(2)
      length.writeUInt16BE(answer.length)
      socket.end(Buffer.concat([length, answer]))
    })
  })
  await new Promise<void>((resolve) => datagrams.bind(53, address, resolve))
  await new Promise<void>((resolve) => streams.listen(53, address, resolve))
  const close = (): void => {
    datagrams.close()
    streams.close()
  }
  return { close, [Symbol.asyncDispose]: async () => close() }
}

const openNameServer = ({ address, names = {} }: PublicSideOptions) =>
  serveNames(address, (name) => {
    const found = names[name] ?? (name === ZONE || name.endsWith(`.${ZONE}`) ? address : undefined)
    return found === undefined ? undefined : [found]
  })

function readName(query: Buffer): string {
  const labels: string[] = []
  for (let at = 12; query[at]! > 0; at += 1 + query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!))
  }
  return labels.join('.').toLowerCase()
}

/** A records, nothing for other types, or that there is no such name; only a mark when it has more than `bytesMax`. */
function reply(query: Buffer, addresses: readonly string[] | undefined, bytesMax: number): Buffer {
  const questionEnd = query.indexOf(0, 12) + 5
  const isA = query.readUInt16BE(questionEnd - 4) === 1
  const records = (isA ? (addresses ?? []) : []).map((address) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...address.split('.').map(Number)]),
  )
  const isCut = questionEnd + records.length * 16 > bytesMax
  const code = addresses === undefined ? 0x83 : 0x80
  const head = Buffer.from([0, 0, isCut ? 0x83 : 0x81, code, 0, 1, 0, isCut ? 0 : records.length, 0, 0, 0, 0])
  query.copy(head, 0, 0, 2)
  return Buffer.concat([head, query.subarray(12, questionEnd), ...(isCut ? [] : records)])
}

/** The repositories in `root`, as git's own program serves them to callers that send `authorization`. */
export function serveGit(root: string, authorization: string): RequestListener {
  return (request, response) => {
    if (request.headers.authorization !== authorization) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'tester',
        REQUEST_METHOD: request.method,
        PATH_INFO: path,
        QUERY_STRING: query,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    request.pipe(backend.stdin)
    backend.stdin.on('error', () => {})
    let head = Buffer.alloc(0)
    backend.stdout.on('data', function readHead(chunk: Buffer) {
      head = Buffer.concat([head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      backend.stdout.off('data', readHead)
      for (const line of head.toString('latin1', 0, end).split('\r\n')) {
        const [name = '', value = ''] = line.split(/:\s*/, 2)
        if (name.toLowerCase() === 'status') response.statusCode = Number.parseInt(value, 10)
        else response.setHeader(name, value)
      }
      response.write(head.subarray(end + 4))
      backend.stdout.pipe(response)
    })
  }
}
