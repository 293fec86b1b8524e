import { createServer } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { trackConnections } from './connections.ts'

const key = (name: string, tier: Principal['tier'] = 'user'): Principal => ({
  ...localOwner,
  tier,
  kind: 'key',
  actor: name,
  keyId: name,
})

function open() {
  const server = createServer()
  const connections = trackConnections(server)
  const connect = (): Socket => {
    const socket = new Socket()
    server.emit('connection', socket)
    return socket
  }
  const claim = (principal: Principal, socket = connect()): string => {
    try {
      connections.claim(socket, principal)
      return 'taken'
    } catch (error) {
      return error instanceof AppError ? error.code : String(error)
    }
  }
  return { connect, claim }
}

const closed = (socket: Socket): Promise<unknown> =>
  new Promise((resolve) => {
    socket.once('close', resolve)
    socket.destroy()
  })

describe('connections', () => {
  it('are bounded for one key, and a closed one makes room', async () => {
    const { connect, claim } = open()
    const sockets = Array.from({ length: limits.httpConnectionsPerKeyMax }, () => connect())
    for (const socket of sockets) expect(claim(key('ann'), socket)).toBe('taken')
    expect(claim(key('ann'), sockets[0])).toBe('taken')
    expect(claim(key('ann'))).toBe('ERR_BUSY')
    expect(claim(key('bob'))).toBe('taken')
    await closed(sockets[1]!)
    expect(claim(key('ann'))).toBe('taken')
  })

  it('count for a caller that showed a key last', () => {
    const { connect, claim } = open()
    const socket = connect()
    expect(claim(key('ann'), socket)).toBe('taken')
    expect(claim(key('bob'), socket)).toBe('taken')
    for (let count = 0; count < limits.httpConnectionsPerKeyMax; count++) expect(claim(key('ann'))).toBe('taken')
    expect(claim(key('ann'))).toBe('ERR_BUSY')
  })

  it('are left for operators, and for the owner, whatever other keys have open', () => {
    const { connect, claim } = open()
    for (let count = 2 * limits.httpConnectionsReserved; count < limits.httpConnectionsMax; count++) connect()
    expect(claim(key('late'))).toBe('ERR_BUSY')
    expect(claim(key('operator', 'operator'))).toBe('taken')
    for (let count = 0; count < limits.httpConnectionsReserved; count++) connect()
    expect(claim(key('operator', 'operator'))).toBe('ERR_BUSY')
    expect(claim(localOwner)).toBe('taken')
  })
})
