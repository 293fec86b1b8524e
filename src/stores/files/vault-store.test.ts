import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runNode } from '../../../test/support/run-node.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import type { VaultPath, VaultStore } from '../../domains/vault/ports.ts'
import { installFaultPlan } from '../../kernel/fault.ts'
import { openFileLock } from '../sqlite/file-lock.ts'
import { createVaultStore } from './vault-store.ts'

const PROCESS = new URL('../../../test/support/vault-process.ts', import.meta.url).pathname
const SECRET = 'not of this vault'

let top: string
let root: string
let outside: string
let store: VaultStore
const live = new AbortController().signal

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'castellan-vault-'))
  root = join(top, 'vault')
  outside = join(top, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'secret.md'), SECRET)
  store = createVaultStore({ rootOf: () => root, openFileLock })
})
afterEach(() => {
  installFaultPlan(undefined)
  rmSync(top, { recursive: true, force: true })
})

const at = (path: string): VaultPath => path as VaultPath
const write = (path: string, text: string): Promise<boolean> =>
  store.update(
    LOCAL_TENANT,
    at(path),
    async (current) => ({ content: Buffer.from(text), answer: current === undefined }),
    live,
  )
const read = async (path: string): Promise<string | undefined> => {
  const bytes = await store.read(LOCAL_TENANT, at(path))
  return bytes === undefined ? undefined : Buffer.from(bytes).toString()
}
const remove = (path: string) => store.remove(LOCAL_TENANT, at(path), live)
const move = (from: string, to: string, overwrite = false) =>
  store.move(LOCAL_TENANT, at(from), at(to), overwrite, live)
const walked = async (folder = ''): Promise<string[]> => {
  const paths: string[] = []
  const all = { isListed: () => true, isEntered: () => true }
  for await (const entry of store.walk(LOCAL_TENANT, folder as '', all)) paths.push(entry.path)
  return paths
}
const openFiles = (): number => readdirSync('/proc/self/fd').length

describe('a vault on disk', () => {
  it('is plain files in folders, and nothing but a hidden folder beside them', async () => {
    expect(await write('a/b/c.md', 'one')).toBe(true)
    expect(await write('a/b/c.md', 'two')).toBe(false)
    expect(readFileSync(join(root, 'a/b/c.md'), 'utf8')).toBe('two')
    expect(readdirSync(root)).toEqual(['.castellan', 'a'])
    expect(readFileSync(join(root, '.castellan/.gitignore'), 'utf8')).toBe('*\n')
    expect(await walked()).toEqual(['a', 'a/b', 'a/b/c.md'])
    expect(await walked('a/b')).toEqual(['a/b/c.md'])
  })

  it('answers what is not there as not there', async () => {
    expect(await read('none.md')).toBeUndefined()
    expect(await read('no/folder/none.md')).toBeUndefined()
    expect(await remove('none.md')).toBe(false)
    expect(await move('none.md', 'other.md')).toBe('missing')
    await expect(walked('none')).rejects.toMatchObject({ code: 'ERR_NOTE_NOT_FOUND' })
    await write('file.md', 'x')
    expect(await read('file.md/below.md')).toBeUndefined()
    await expect(write('file.md/below.md', 'x')).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    await expect(walked('file.md')).rejects.toMatchObject({ code: 'ERR_NOTE_NOT_FOUND' })
  })

  it('moves without replacing, unless told to', async () => {
    await write('one.md', '1')
    await write('two.md', '2')
    expect(await move('one.md', 'two.md')).toBe('exists')
    expect(await read('two.md')).toBe('2')
    expect(await move('one.md', 'deep/er/three.md')).toBe('moved')
    expect(await read('one.md')).toBeUndefined()
    expect(statSync(join(root, 'deep/er/three.md')).nlink).toBe(1)
    expect(await move('deep/er/three.md', 'two.md', true)).toBe('replaced')
    expect(await read('two.md')).toBe('1')
  })

  it('keeps the mode of a file that it changes', async () => {
    await write('note.md', 'one')
    chmodSync(join(root, 'note.md'), 0o640)
    await write('note.md', 'two')
    expect(statSync(join(root, 'note.md')).mode & 0o777).toBe(0o640)
  })

  it('changes a note and not the other names of the same file', async () => {
    linkSync(join(outside, 'secret.md'), join(top, 'linked.md'))
    await write('note.md', 'one')
    renameSync(join(top, 'linked.md'), join(root, 'note.md'))
    await write('note.md', 'two')
    expect(readFileSync(join(outside, 'secret.md'), 'utf8')).toBe(SECRET)
  })

  it('refuses a file that is larger than a note, and still lets it be replaced', async () => {
    mkdirSync(root)
    writeFileSync(join(root, 'big.md'), Buffer.alloc(limits.vaultNoteBytesMax + 1, 'x'))
    await expect(read('big.md')).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    await write('big.md', 'small')
    expect(await read('big.md')).toBe('small')
    await expect(write('big.md', 'x'.repeat(limits.vaultNoteBytesMax + 1))).rejects.toMatchObject({
      code: 'ERR_TOO_LARGE',
    })
    expect(await read('big.md')).toBe('small')
  })

  it('runs a change again when a program without locks was quicker, and loses nothing', async () => {
    await write('note.md', 'one ')
    let runs = 0
    await store.update(
      LOCAL_TENANT,
      at('note.md'),
      async (current) => {
        const before = Buffer.from(await current!.read()).toString()
        if (runs++ === 0) writeFileSync(join(root, 'note.md'), `${before}foreign `)
        return { content: Buffer.from(`${before}mine`), answer: undefined }
      },
      live,
    )
    expect([runs, await read('note.md')]).toEqual([2, 'one foreign mine'])
  })

  it('gives up on a note that another program never leaves alone', async () => {
    await write('note.md', 'one')
    let runs = 0
    const change = async () => {
      writeFileSync(join(root, 'note.md'), `foreign ${++runs}`)
      return { content: Buffer.from('mine'), answer: undefined }
    }
    await expect(store.update(LOCAL_TENANT, at('note.md'), change, live)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    expect(await read('note.md')).toBe(`foreign ${runs}`)
  })

  it('closes every file that it opens', async () => {
    for (let number = 0; number < 20; number++) await write(`f${number % 3}/n${number}.md`, 'x')
    const before = openFiles()
    for (let number = 0; number < 20; number++) {
      await write(`f${number % 3}/n${number}.md`, 'y')
      await read(`f0/n${number}.md`)
      await move('missing.md', `new${number}/x.md`)
      await write('f0', 'x').catch(() => {})
      for await (const _ of store.walk(LOCAL_TENANT, '', { isListed: () => true, isEntered: () => true })) break
    }
    expect(openFiles()).toBe(before)
  })
})

describe('a failing disk', () => {
  it.each(['file.write', 'file.replace'] as const)(
    'at %s leaves the note as it was, and no other trace',
    async (point) => {
      await write('note.md', 'old')
      installFaultPlan((reached) => {
        if (reached === point) throw Object.assign(new Error('planned'), { code: 'ENOSPC' })
      })
      await expect(write('note.md', 'new')).rejects.toMatchObject({
        code: 'ERR_STORE_UNAVAILABLE',
        details: { code: 'ENOSPC' },
      })
      installFaultPlan(undefined)
      expect(await read('note.md')).toBe('old')
      expect(readdirSync(join(root, '.castellan')).filter((name) => name.endsWith('.tmp'))).toEqual([])
      await write('note.md', 'new')
      expect(await read('note.md')).toBe('new')
    },
  )

  it('leaves both names or the old one when a move fails', async () => {
    await write('note.md', 'old')
    installFaultPlan(() => {
      throw new Error('planned')
    })
    await expect(move('note.md', 'new.md')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
    installFaultPlan(undefined)
    expect([await read('note.md'), await read('new.md')]).toEqual(['old', undefined])
  })
})

describe('symbolic links', () => {
  const refusal = { code: 'ERR_INVALID_INPUT', message: expect.stringContaining('symbolic link') }

  it('are refused at the end of a path, whatever is asked for', async () => {
    await write('note.md', 'x')
    symlinkSync(join(outside, 'secret.md'), join(root, 'link.md'))
    symlinkSync('note.md', join(root, 'inner.md'))
    for (const name of ['link.md', 'inner.md']) {
      await expect(read(name)).rejects.toMatchObject(refusal)
      await expect(write(name, 'x')).rejects.toMatchObject(refusal)
      await expect(remove(name)).rejects.toMatchObject(refusal)
      await expect(move(name, 'new.md')).rejects.toMatchObject(refusal)
      await expect(move('note.md', name, true)).rejects.toMatchObject(refusal)
    }
    expect(readFileSync(join(outside, 'secret.md'), 'utf8')).toBe(SECRET)
  })

  it('are refused on the way, and never listed or entered', async () => {
    await write('real/note.md', 'x')
    symlinkSync(outside, join(root, 'out'))
    symlinkSync('real', join(root, 'in'))
    for (const name of ['out/secret.md', 'in/note.md', 'out/deep/new.md']) {
      await expect(read(name)).rejects.toMatchObject(refusal)
      await expect(write(name, 'x')).rejects.toMatchObject(refusal)
      await expect(remove(name)).rejects.toMatchObject(refusal)
      await expect(move('real/note.md', name)).rejects.toMatchObject(refusal)
    }
    await expect(walked('out')).rejects.toMatchObject(refusal)
    expect(await walked()).toEqual(['real', 'real/note.md'])
    expect(readdirSync(outside)).toEqual(['secret.md'])
  })

  it('are refused in the place of the folder with the locks', async () => {
    mkdirSync(root)
    symlinkSync(outside, join(root, '.castellan'))
    await expect(write('note.md', 'x')).rejects.toMatchObject(refusal)
    expect(readdirSync(outside)).toEqual(['secret.md'])
  })

  it('lead nowhere even when they take the place of a folder at any moment', async () => {
    await write('d/secret.md', 'inside')
    const real = join(top, 'real')
    let isDone = false
    const folder = join(root, 'd')
    // The store may make the folder anew in between, which is no harm but in the way.
    const untilDone = (step: () => void) => {
      for (;;) {
        try {
          return step()
        } catch {
          rmSync(folder, { recursive: true, force: true })
        }
      }
    }
    const swap = async () => {
      while (!isDone) {
        renameSync(folder, real)
        untilDone(() => symlinkSync(outside, folder))
        await new Promise((resolve) => setImmediate(resolve))
        rmSync(folder)
        untilDone(() => renameSync(real, folder))
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const swapping = swap()
    const outcomes = { inside: 0, refused: 0 }
    try {
      const hasSeenBoth = (): boolean => outcomes.inside > 0 && outcomes.refused > 0
      for (let turn = 0; turn < 200 || (turn < 20_000 && !hasSeenBoth()); turn++) {
        const found = await read('d/secret.md').catch(() => 'refused')
        expect(found).not.toBe(SECRET)
        if (found === 'refused') outcomes.refused++
        else if (found === 'inside') outcomes.inside++
        if (turn % 20 > 0) continue
        await write('d/new.md', 'new').catch(() => {})
        await move('d/new.md', 'd/newer.md').catch(() => {})
        await remove('d/newer.md').catch(() => {})
      }
    } finally {
      isDone = true
      await swapping
    }
    expect(readdirSync(outside)).toEqual(['secret.md'])
    expect(readFileSync(join(outside, 'secret.md'), 'utf8')).toBe(SECRET)
    expect(outcomes.refused).toBeGreaterThan(0)
    expect(outcomes.inside).toBeGreaterThan(0)
  })

  it('may lead to the root, which is the operator’s to choose', async () => {
    mkdirSync(join(top, 'elsewhere'))
    symlinkSync(join(top, 'elsewhere'), root)
    await write('note.md', 'x')
    expect(readFileSync(join(top, 'elsewhere/note.md'), 'utf8')).toBe('x')
  })

  it('are not confused with folders and sockets in the place of notes', async () => {
    mkdirSync(join(root, 'folder.md'), { recursive: true })
    await expect(read('folder.md')).rejects.toMatchObject({ message: expect.stringContaining('is a folder') })
    const server = createServer().listen(join(root, 'socket.md'))
    await once(server, 'listening')
    await expect(read('socket.md')).rejects.toMatchObject({ message: expect.stringContaining('not a regular file') })
    expect(await walked()).toEqual(['folder.md'])
    server.close()
  })
})

describe('the lock of a note', () => {
  const append = (line: string, target = store) =>
    target.update(
      LOCAL_TENANT,
      at('shared.md'),
      async (current) => ({
        content: Buffer.concat([(await current?.read()) ?? Buffer.of(), Buffer.from(line)]),
        answer: undefined,
      }),
      live,
    )

  it('lets one change at a time through, in this process and in others', async () => {
    const other = createVaultStore({ rootOf: () => root, openFileLock })
    const [processes, turns] = [3, 25]
    const ended = Array.from({ length: processes }, (_, number) =>
      runNode([PROCESS, root, 'append', `p${number}`, String(turns)], 180_000),
    )
    for (let turn = 0; turn < turns; turn++) {
      await Promise.all([append(`a ${turn}\n`), append(`b ${turn}\n`, other)])
    }
    for (const { code, stderr } of await Promise.all(ended)) expect([code, stderr]).toEqual([0, ''])
    const lines = (await read('shared.md'))!.trimEnd().split('\n')
    const writers = ['a', 'b', ...Array.from({ length: processes }, (_, number) => `p${number}`)]
    const expected = writers.flatMap((name) => Array.from({ length: turns }, (_, turn) => `${name} ${turn}`))
    expect(lines.toSorted()).toEqual(expected.toSorted())
  })

  it('is waited for, and goes with a process that is killed', async () => {
    for (const end of ['input', 'kill'] as const) {
      rmSync(root, { recursive: true, force: true })
      const holder = spawn(process.execPath, [PROCESS, root, 'hold'], { stdio: ['pipe', 'pipe', 'inherit'] })
      await once(holder.stdout!, 'data')
      const impatient = new AbortController()
      const input = store.update(
        LOCAL_TENANT,
        at('shared.md'),
        async () => ({ content: Buffer.from('taken'), answer: undefined }),
        impatient.signal,
      )
      impatient.abort()
      await expect(input).rejects.toMatchObject({ name: 'AbortError' })
      expect(existsSync(join(root, 'shared.md'))).toBe(false)
      const waiting = append('mine\n')
      if (end === 'kill') holder.kill('SIGKILL')
      else holder.stdin!.end()
      await waiting
      expect(await read('shared.md')).toBe(end === 'kill' ? 'mine\n' : 'held\nmine\n')
    }
  })

  it('of a process that died in the middle leaves the old content and nothing that is in the way', async () => {
    await append('old\n')
    const died = await runNode([PROCESS, root, 'die'], 180_000)
    expect(died.code).toBeNull()
    expect(readdirSync(join(root, '.castellan')).filter((name) => name.endsWith('.tmp'))).toHaveLength(1)
    expect([await read('shared.md'), await walked()]).toEqual(['old\n', ['shared.md']])
    await append('new\n')
    expect(await read('shared.md')).toBe('old\nnew\n')
    expect(readdirSync(join(root, '.castellan')).filter((name) => name.endsWith('.tmp'))).toEqual([])
  })
})
