import type { Server, Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { answerTo, readQuestion } from './network/dns-message.ts'
import { egressAddress, proxyPort } from './network/index.ts'
import type { Datagrams, Sockets } from './network/sockets.ts'

/**
 * The egress endpoints inside the network of a workspace with a domain list: a resolver that gives every allowed name one
 * address, listeners for HTTP and TLS at that address, and a proxy for programs that use one. Nothing else can be reached there,
 * so every program that looks up a name gets here, whether or not it supports proxies. The resolver forwards no query, so names
 * cannot carry data out.
 */
export type EgressEndpoints = Readonly<{ close(): void }>

type EndpointDeps = Readonly<{
  sockets: Pick<Sockets, 'listenInside' | 'datagramsInside'>
  isAllowed(name: string): boolean
  onRefused(name: string): void
  onProxied(socket: Socket): void
  onDirect(socket: Socket, port: number): void
}>

const NAME_PORT = 53
export const DIRECT_PORTS: readonly number[] = [80, 443]
const NAME_CLIENTS_MAX = 64
const NAME_IDLE_MS = 10_000

/** Opens all endpoints or none: a subset would work for some programs and fail for others. */
export async function openEgressEndpoints(deps: EndpointDeps, pid: number): Promise<EgressEndpoints> {
  const { sockets } = deps
  const listen = (port: number, onConnection: (socket: Socket) => void): Promise<Server> =>
    sockets.listenInside(pid, egressAddress, port, onConnection)
  const outcomes = await Promise.allSettled<Server | Datagrams>([
    sockets.datagramsInside(pid, egressAddress, NAME_PORT),
    listen(NAME_PORT, (socket) => answerStream(deps, socket)),
    listen(proxyPort, deps.onProxied),
    ...DIRECT_PORTS.map((port) => listen(port, (socket) => deps.onDirect(socket, port))),
  ])
  const opened = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const close = (): void => {
    for (const one of opened) one.close()
  }
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) {
    close()
    throw notOpened(failed.reason)
  }
  const [datagrams, names] = opened as [Datagrams, Server]
  names.maxConnections = NAME_CLIENTS_MAX
  datagrams.on('error', () => {})
  datagrams.on('message', (message, from) => {
    const answer = answerOf(deps, message)
    if (answer !== undefined) datagrams.send(answer, from.port, from.address, () => {})
  })
  return { close }
}

function notOpened(cause: NodeJS.ErrnoException): AppError {
  if (cause.code !== 'EADDRINUSE') {
    return new AppError(
      'ERR_BACKEND_FAILED',
      `allowed_domains: the listeners for named hosts cannot be opened (${cause.code})`,
      {},
      { cause },
    )
  }
  const ports = [...DIRECT_PORTS, NAME_PORT, proxyPort].join(', ')
  return new AppError(
    'ERR_ALREADY_EXISTS',
    `allowed_domains: a program in the workspace listens on one of the ports ${ports}, which are needed to reach named hosts. Stop it, or let it listen on 127.0.0.1 only.`,
    { field: 'allowed_domains' },
    { cause },
  )
}

function answerOf({ isAllowed, onRefused }: EndpointDeps, message: Buffer): Buffer | undefined {
  const question = readQuestion(message)
  if (question === undefined) return undefined
  if (isAllowed(question.name)) return answerTo(message, question, egressAddress)
  onRefused(question.name)
  return answerTo(message, question, undefined)
}

/** DNS over TCP: each message is preceded by its length. */
function answerStream(deps: EndpointDeps, socket: Socket): void {
  let held: Buffer = Buffer.alloc(0)
  socket.on('error', () => socket.destroy())
  socket.setTimeout(NAME_IDLE_MS, () => socket.destroy())
  socket.on('end', () => socket.end())
  socket.on('data', (chunk: Buffer) => {
    held = Buffer.concat([held, chunk])
    while (held.length >= 2 && held.length >= 2 + held.readUInt16BE()) {
      const end = 2 + held.readUInt16BE()
      const answer = answerOf(deps, held.subarray(2, end))
      held = held.subarray(end)
      if (answer === undefined) return void socket.destroy()
      const length = Buffer.alloc(2)
      length.writeUInt16BE(answer.length)
      if (!socket.write(Buffer.concat([length, answer]))) return void socket.destroy()
    }
  })
}
