import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { askContent, createAsk, isUnreachable, isWentAway } from './supervisor-client.ts'

let folder = ''
let path = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-client-'))
  path = join(folder, 'socket')
})
afterEach(() => rmSync(folder, { recursive: true }))

async function listen(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}

const requests = [
  { name: 'a request', ask: () => createAsk(path)('inventory', {}) },
  {
    name: 'a request for content',
    ask: () => askContent(path, { within: null, id: 'w', path: '/f', offset: 0, length: null }),
  },
]

describe.each(requests)('$name', ({ ask }) => {
  it('that nobody took is known as such', async () => {
    const failure = await ask().catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'ERR_BACKEND_FAILED', details: { reason: 'ENOENT' } })
    expect([isUnreachable(failure), isWentAway(failure)]).toEqual([true, false])
  })

  it('that waited for a connection when the supervisor ended was not taken either', async () => {
    const server = await listen(createServer())
    const asked = ask().catch((error: unknown) => error)
    server.close()
    const failure = await asked
    expect(failure).toMatchObject({ code: 'ERR_BACKEND_FAILED', details: { reason: 'ECONNRESET' } })
    expect([isUnreachable(failure), isWentAway(failure)]).toEqual([true, false])
  })

  it('that was taken and never answered may have been carried out', async () => {
    const server = await listen(
      createServer((socket) => socket.on('error', () => {}).once('data', () => socket.destroy())),
    )
    const failure = await ask().catch((error: unknown) => error)
    server.close()
    expect(failure).toMatchObject({ code: 'ERR_BACKEND_FAILED' })
    expect([isUnreachable(failure), isWentAway(failure)]).toEqual([false, true])
  })
})
