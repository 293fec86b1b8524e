import type { Server, Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { answerTo, readQuestion } from './network/dns-message.ts'
import { proxyPort, wayOutAddress } from './network/index.ts'
import type { Datagrams, Sockets } from './network/sockets.ts'

/**
 * What a workspace with a list of domains finds inside its own network, where nothing else can be reached: a resolver that
 * gives every allowed name one address, listeners for HTTP and TLS at that address, and a proxy for programs that ask one.
 * So every program that looks a name up comes here, whether it knows of proxies or not. Names are never asked of anybody
 * here, so none can carry something out.
 */
export type WayOut = Readonly<{ close(): void }>

type WayOutDeps = Readonly<{
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

/** All of it, or none: a way out that only some programs find would be worse than none. */
export async function openWayOut(deps: WayOutDeps, pid: number): Promise<WayOut> {
  const { sockets } = deps
  const listen = (port: number, onConnection: (socket: Socket) => void): Promise<Server> =>
    sockets.listenInside(pid, wayOutAddress, port, onConnection)
  const outcomes = await Promise.allSettled<Server | Datagrams>([
    sockets.datagramsInside(pid, wayOutAddress, NAME_PORT),
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

function answerOf({ isAllowed, onRefused }: WayOutDeps, message: Buffer): Buffer | undefined {
  const question = readQuestion(message)
  if (question === undefined) return undefined
  if (isAllowed(question.name)) return answerTo(message, question, wayOutAddress)
  onRefused(question.name)
  return answerTo(message, question, undefined)
}

/** Each message comes with its length before it. */
function answerStream(deps: WayOutDeps, socket: Socket): void {
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
