import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { type Logger, silentLogger } from '../../kernel/logger.ts'
import { type Attachment, type AttachOptions, attach } from './attach.ts'
import { tryOwnerLock } from './owner-lock.ts'
import type { Owner } from './owner-server.ts'

let root = ''
let attachments: Attachment[] = []

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'castellan-attach-'))
  attachments = []
})

afterEach(async () => {
  for (const attachment of attachments.reverse()) await attachment.close()
  rmSync(root, { recursive: true, force: true })
})

/** An owner whose sessions answer each line with the name of the owner and the line. */
const echoOwner = (name: string, mode = 'FULL'): Owner => ({
  mode,
  serveLines(transport) {
    transport.onLine((line) => transport.send(`${name} ${line}`))
    transport.onClose(() => transport.close())
  },
  serveHttp: (socket) => void socket.on('error', () => {}).end(),
  async close() {},
})

async function enter(name: string, more: Partial<AttachOptions> = {}): Promise<Attachment> {
  const attachment = await attach({
    dataDir: root,
    version: '1.0.0',
    becomeOwner: async () => echoOwner(name),
    logger: silentLogger,
    clock: systemClock,
    ...more,
  })
  attachments.push(attachment)
  return attachment
}

async function ask(attachment: Attachment, line: string): Promise<string> {
  const { transport } = await attachment.openLines({ transport: 'cli' }, 2_000)
  return new Promise((resolve) => {
    transport.onLine((answer) => {
      transport.close()
      resolve(answer)
    })
    transport.send(line)
  })
}

test('the first owns, the second reaches it, and follows when it leaves', async () => {
  const first = await enter('first')
  const second = await enter('second')
  const changes: number[] = []
  second.onOwnerChanged((pid) => changes.push(pid))
  expect([first.isOwner(), second.isOwner()]).toEqual([true, false])
  expect(await ask(first, 'a')).toBe('first a')
  expect(await ask(second, 'b')).toBe('first b')
  await first.close()
  expect(await ask(second, 'c')).toBe('second c')
  expect(changes).toEqual([process.pid])
  await expect(first.openLines({ transport: 'cli' }, 10)).rejects.toMatchObject({ code: 'ERR_SHUTTING_DOWN' })
})

test('a line of several megabytes crosses whole', async () => {
  await enter('o')
  const other = await enter('x')
  const long = 'Θé€𝄞'.repeat(300_000)
  expect(await ask(other, long)).toBe(`o ${long}`)
})

test('the data directory and the socket are for their user alone', async () => {
  chmodSync(root, 0o755)
  await enter('o')
  expect(statSync(root).mode & 0o777).toBe(0o700)
  expect(statSync(join(root, 'owner.sock')).mode & 0o777).toBe(0o600)
})

test('a path too long for a socket moves the socket to the private runtime directory', async () => {
  const dataDir = join(root, 'd'.repeat(60), 'e'.repeat(60))
  const runtimeDir = join(root, 'run')
  mkdirSync(runtimeDir)
  await enter('long', { dataDir, runtimeDir })
  const { socket } = JSON.parse(readFileSync(join(dataDir, 'owner.json'), 'utf8')) as { socket: string }
  expect(socket.startsWith(join(runtimeDir, 'castellan'))).toBe(true)
  expect(statSync(join(runtimeDir, 'castellan')).mode & 0o777).toBe(0o700)
  expect(await ask(await enter('other', { dataDir, runtimeDir: join(root, 'elsewhere') }), 'x')).toBe('long x')
})

test('a data directory that is a file is refused with the way out', async () => {
  const dataDir = join(root, 'file')
  writeFileSync(dataDir, '')
  await expect(enter('o', { dataDir })).rejects.toMatchObject({
    code: 'ERR_INIT_FAILED',
    message: expect.stringContaining('--data-dir'),
  })
})

test('a state that cannot be opened ends the start and frees the lock', async () => {
  const becomeOwner = async (): Promise<Owner> => {
    throw new Error('broken disk')
  }
  await expect(enter('bad', { becomeOwner })).rejects.toThrow('broken disk')
  expect((await enter('good')).isOwner()).toBe(true)
})

test('a take-over that fails is reported to callers in time and tried again', async () => {
  const first = await enter('first')
  let isBroken = true
  const second = await enter('second', {
    becomeOwner: async () => {
      if (isBroken) throw new Error('not yet')
      return echoOwner('second')
    },
  })
  await first.close()
  await expect(second.openLines({ transport: 'cli' }, 50)).rejects.toMatchObject({ code: 'ERR_OWNER_LOST' })
  isBroken = false
  expect(await ask(second, 'x')).toBe('second x')
})

test('an owner that does not answer is named', async () => {
  const lock = tryOwnerLock(root)
  writeFileSync(join(root, 'owner.json'), JSON.stringify({ pid: 4242, version: '1.0.0', socket: 'owner.sock' }))
  await expect(enter('o', { startTimeoutMs: 50 })).rejects.toMatchObject({
    code: 'ERR_INIT_FAILED',
    message: expect.stringContaining('pid 4242'),
  })
  lock?.release()
})

test('an owner of another protocol is refused by name, one of another version only remarked on', async () => {
  const warnings: string[] = []
  const logger: Logger = { ...silentLogger, warn: (message) => warnings.push(message) }
  const owner = await enter('o')
  await enter('x', { version: '2.0.0', logger })
  expect(warnings).toEqual([expect.stringContaining('another version')])
  await attachments.pop()?.close()
  await owner.close()

  const lock = tryOwnerLock(root)
  const untrusted = createServer((socket) => {
    socket.on('error', () => {}).end('{"castellan":99,"pid":7,"version":"9.9.9"}\n')
  })
  await new Promise<void>((resolve) => untrusted.listen(join(root, 'owner.sock'), resolve))
  writeFileSync(join(root, 'owner.json'), JSON.stringify({ pid: 7, version: '9.9.9', socket: 'owner.sock' }))
  await expect(enter('o')).rejects.toMatchObject({ message: expect.stringContaining('pid 7, castellan 9.9.9') })
  untrusted.close()
  lock?.release()
})

test('an owner in another mode than the one asked for is refused, at the start and after a change of owner', async () => {
  const first = await enter('first', { becomeOwner: async () => echoOwner('first', 'READONLY') })
  const refused = { code: 'ERR_MODE_REFUSED', message: expect.stringMatching(/FULL .* process \d+ .* mode READONLY/) }
  await expect(enter('strict', { requiredMode: 'FULL' })).rejects.toMatchObject(refused)
  const easy = await enter('easy')
  let isReady = false
  const same = await enter('same', {
    requiredMode: 'READONLY',
    becomeOwner: async () => {
      if (!isReady) throw new Error('not yet')
      return echoOwner('same', 'READONLY')
    },
  })
  expect(await ask(same, 'a')).toBe('first a')

  await first.close()
  expect(await ask(easy, 'b')).toBe('easy b')
  const calling = () => same.openLines({ transport: 'cli' }, 50).catch((error: unknown) => error)
  await expect.poll(calling).toMatchObject({ code: 'ERR_MODE_REFUSED' })
  isReady = true
  await easy.close()
  expect(await ask(same, 'c')).toBe('same c')
})

test('a process that does not greet properly is cut off, and is told our version when only the protocol differs', async () => {
  const owner = await enter('o')
  const say = async (words: string): Promise<string> => {
    const socket = connect({ path: join(root, 'owner.sock'), allowHalfOpen: true })
    socket.on('error', () => {})
    socket.write(words)
    const answer = await text(socket)
    socket.destroy()
    return answer
  }
  expect(await say('GET / HTTP/1.1\r\n\r\n')).toBe('')
  expect(await say('{"castellan":1,"door":"cellar"}\n')).toBe('')
  expect(await say('x'.repeat(100_000))).toBe('')
  expect(JSON.parse(await say('{"castellan":99,"door":"stdio"}\n'))).toEqual({
    castellan: 1,
    pid: process.pid,
    version: '1.0.0',
    mode: 'FULL',
  })
  expect(await ask(owner, 'still here')).toBe('o still here')
})
