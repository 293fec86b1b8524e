import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { connect, createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { answerLines } from './line-requests.ts'

/**
 * A process inside a workspace that talks and listens. Refusals come back as the code of the system's error. It holds the
 * workspace's namespaces, and is root in them: more than a real workload, so what it cannot do, that cannot either.
 */
const sockets: Socket[] = []
const datagrams: string[] = []
let datagramCame = (): void => {}

const codeOf = (error: NodeJS.ErrnoException): string => error.code ?? error.message

answerLines({
  /** Echoes with its name before. */
  listen: (port: number, name: string, address = '0.0.0.0') =>
    new Promise((resolve) => {
      const server = createServer((socket) => {
        socket.on('data', (data) => socket.write(`${name}:${String(data)}`))
        socket.on('error', () => {})
      })
      server.listen(port, address, () => resolve(null))
    }),
  connect: (host: string, port: number, localPort?: number) =>
    new Promise((resolve) => {
      const socket = connect({ host, port, ...(localPort === undefined ? {} : { localPort }) })
      socket.on('connect', () => resolve({ socket: sockets.push(socket) - 1 }))
      socket.on('error', (error) => resolve({ refused: codeOf(error) }))
    }),
  /** What comes back on an open connection, or how it broke. */
  say: (number: number, text: string) =>
    new Promise((resolve) => {
      const socket = sockets[number]!
      if (socket.destroyed) return resolve('closed')
      socket.once('data', (data) => resolve(String(data)))
      socket.once('error', (error) => resolve(codeOf(error)))
      socket.once('close', () => resolve('closed'))
      socket.write(text)
    }),
  datagramListen: (port: number) =>
    new Promise((resolve) => {
      const socket = createSocket({ type: 'udp6', ipv6Only: false })
      socket.on('message', (message) => {
        datagrams.push(String(message))
        datagramCame()
      })
      socket.bind(port, () => resolve(null))
    }),
  /** All that came, as soon as this text did. */
  datagramsUntil: (text: string) =>
    new Promise((resolve) => {
      datagramCame = () => {
        if (datagrams.includes(text)) resolve(datagrams)
      }
      datagramCame()
    }),
  /** Sends, and says how that was refused or what was answered. */
  datagramAsk: (host: string, port: number, text: string) =>
    new Promise((resolve) => {
      const socket = createSocket('udp4')
      socket.on('error', (error) => resolve(codeOf(error)))
      socket.on('message', (message) => resolve(String(message)))
      socket.connect(port, host, () => socket.send(text))
    }),
  datagramSend: (host: string, port: number, text: string, from: string) =>
    new Promise((resolve) => {
      const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
      socket.bind(0, from, () => socket.send(text, port, host, (error) => resolve(error ? codeOf(error) : 'sent')))
    }),
  interfaces: () => networkInterfaces(),
  run: (program: string, args: string[]) => execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' }),
})
