import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { filesBelow, makeFileTree, textOf } from '../../../test/support/file-tree.ts'
import { runNode } from '../../../test/support/run-node.ts'
import type { WorkspaceFiles } from '../../domains/workspaces/backend.ts'

let tree: Awaited<ReturnType<typeof makeFileTree>>
beforeEach(async () => {
  tree = await makeFileTree()
})
afterEach(() => tree[Symbol.asyncDispose]())

const inRoot = (path: string): string => join(tree.root, path)
const nothing = Buffer.alloc(0)

/** Every method that takes a path. */
const uses: Readonly<Record<string, (files: WorkspaceFiles, path: string) => Promise<unknown>>> = {
  stat: (files, path) => files.stat(path),
  list: (files, path) => files.list(path, 10),
  read: async (files, path) => textOf(await files.read(path)),
  write: (files, path) => files.write(path, nothing),
  remove: (files, path) => files.remove(path, { recursive: true }),
  makeDirectory: (files, path) => files.makeDirectory(path),
  'rename from': (files, path) => files.rename(path, '/elsewhere'),
  'rename to': (files, path) => files.rename('/moved', path),
}

async function codesOf(path: string, names = Object.keys(uses), files = tree.files): Promise<Record<string, string>> {
  const codes: Record<string, string> = {}
  for (const name of names) {
    codes[name] = await uses[name]!(files, path).then(
      () => 'done',
      (error) => error.code,
    )
  }
  return codes
}
const allAre = (code: string, names = Object.keys(uses)) => Object.fromEntries(names.map((name) => [name, code]))

describe('a path', () => {
  it.each([
    ['is empty', '', 'is empty'],
    ['is relative', 'home/x', 'is relative'],
    ['has a NUL', '/a\0b', 'NUL'],
    ['is not Unicode', '/a\ud800', 'Unicode'],
    ['is too long', '/a'.repeat(2_049), 'at most 4096'],
    ['has too long a name', `/a/${'é'.repeat(128)}`, 'more than 255 bytes'],
  ])('that %s is refused with the field and the rule', async (_what, path, rule) => {
    await writeFile(inRoot('moved'), '')
    expect(await codesOf(path)).toEqual(allAre('ERR_INVALID_INPUT'))
    await expect(tree.files.read(path)).rejects.toMatchObject({
      message: expect.stringMatching(new RegExp(`^path: .*${rule}`)),
      details: { field: 'path' },
    })
    await expect(tree.files.rename('/moved', path)).rejects.toMatchObject({ details: { field: 'to' } })
    await expect(tree.files.rename(path, '/moved')).rejects.toMatchObject({ details: { field: 'from' } })
  })

  it('may be as long as the rules allow', async () => {
    const name = 'n'.repeat(255)
    await tree.files.write(`/${name}/${'é'.repeat(127)}`, Buffer.from('x'))
    expect(await tree.files.stat(`/${name}/${'é'.repeat(127)}`)).toMatchObject({ size: 1 })
    expect(await tree.files.stat('/'.repeat(4_096))).toMatchObject({ kind: 'dir' })
  })

  it('that is missing is named in the error, shortened and quoted', async () => {
    await expect(tree.files.read('/no/"such"\nfile')).rejects.toMatchObject({
      code: 'ERR_FILE_NOT_FOUND',
      message: expect.stringContaining('path: "/no/\\"such\\"\\nfile" '),
      details: { path: '/no/"such"\nfile' },
    })
    await expect(tree.files.stat(`/${'x/'.repeat(1_000)}`)).rejects.toMatchObject({
      message: expect.stringMatching(/^.{0,300}$/),
    })
    const reading = ['stat', 'list', 'read', 'remove', 'rename from']
    expect(await codesOf('/missing', reading)).toEqual(allAre('ERR_FILE_NOT_FOUND', reading))
  })

  it('through a file is no directory', async () => {
    await writeFile(inRoot('file'), '')
    await writeFile(inRoot('moved'), '')
    for (const path of ['/file/x', '/file/', '/file/..']) {
      const codes = await codesOf(path)
      expect(codes).toEqual(allAre('ERR_NOT_A_DIRECTORY'))
    }
    expect(await codesOf('/file', ['list'])).toEqual({ list: 'ERR_NOT_A_DIRECTORY' })
    expect(await codesOf('/file', ['makeDirectory'])).toEqual({ makeDirectory: 'ERR_ALREADY_EXISTS' })
  })

  it('of a directory is no file, and the root can be neither removed nor moved', async () => {
    await mkdir(inRoot('d'))
    await writeFile(inRoot('moved'), '')
    expect(await codesOf('/d', ['read', 'write'])).toEqual(allAre('ERR_NOT_A_FILE', ['read', 'write']))
    expect(await codesOf('/new/', ['write'])).toEqual({ write: 'ERR_NOT_A_FILE' })
    const changes = ['remove', 'rename from', 'rename to']
    for (const path of ['/', '/..', '/d/..']) {
      expect(await codesOf(path, changes)).toEqual(allAre('ERR_INVALID_INPUT', changes))
    }
    expect(await codesOf('/d', ['rename to'])).toEqual({ 'rename to': 'ERR_NOT_A_FILE' })
    await expect(tree.files.rename('/d', '/d/inner')).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    await expect(tree.files.rename('/moved', '/other/')).rejects.toMatchObject({ code: 'ERR_NOT_A_DIRECTORY' })
  })
})

describe('other input', () => {
  it.each([
    ['limit', (files: WorkspaceFiles) => files.list('/', 0)],
    ['limit', (files: WorkspaceFiles) => files.list('/', 1.5)],
    ['offset', (files: WorkspaceFiles) => files.read('/f', { offset: -1, length: 1 })],
    ['length', (files: WorkspaceFiles) => files.read('/f', { offset: 0, length: Number.NaN })],
    ['mode', (files: WorkspaceFiles) => files.write('/f', nothing, { mode: 0o4755 })],
  ])('is checked: %s', async (field, use) => {
    await expect(use(tree.files)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
  })
})

describe('links', () => {
  it('never lead out of the root, relative, absolute or by way of ..', async () => {
    await writeFile(join(tree.outside, 'secret'), 'canary')
    await symlink('../outside', inRoot('relative'))
    await symlink('../../../../../../outside', inRoot('far'))
    await symlink(tree.outside, inRoot('absolute'))
    await mkdir(inRoot('d'))
    const paths = [
      '/relative/secret',
      '/far/secret',
      '/absolute/secret',
      '/../outside/secret',
      '/d/../../outside/secret',
    ]
    for (const path of paths) {
      await expect(tree.files.read(path)).rejects.toMatchObject({ code: 'ERR_FILE_NOT_FOUND' })
      await tree.files.write(path, Buffer.from('mine'))
      expect(await textOf(await tree.files.read(path))).toBe('mine')
      await tree.files.remove(path)
    }
    expect(await readFile(join(tree.outside, 'secret'), 'utf8')).toBe('canary')
  })

  it('may be followed forty times and no more', async () => {
    await writeFile(inRoot('l0'), 'end')
    for (let n = 1; n <= 41; n += 1) await symlink(`l${n - 1}`, inRoot(`l${n}`))
    await symlink('circle', inRoot('circle'))
    expect(await textOf(await tree.files.read('/l40'))).toBe('end')
    const following = ['stat', 'list', 'read', 'write', 'makeDirectory']
    for (const path of ['/l41', '/circle']) {
      expect(await codesOf(path, following)).toEqual(allAre('ERR_FILE_REFUSED', following))
    }
    expect(await codesOf('/circle', ['remove'])).toEqual({ remove: 'done' })
  })

  it('that stretch a path without end are given up', async () => {
    await mkdir(inRoot('a'))
    for (let n = 0; n < 20; n += 1) {
      await symlink(`${'a/../'.repeat(800)}${n === 19 ? 'a' : `s${n + 1}`}`, inRoot(`s${n}`))
    }
    await expect(tree.files.stat('/s0')).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    expect(await tree.files.stat('/s19')).toMatchObject({ kind: 'dir' })
  })
})

describe('special files', () => {
  it('are neither read nor written, and a pipe without another end holds nobody up', async () => {
    execFileSync('mkfifo', [inRoot('pipe')])
    const server = createServer().listen(inRoot('socket'))
    await once(server, 'listening')
    for (const path of ['/pipe', '/socket']) {
      expect(await codesOf(path, ['read', 'write'])).toEqual(allAre('ERR_FILE_REFUSED', ['read', 'write']))
      expect(await tree.files.stat(path)).toMatchObject({ kind: 'other' })
    }
    expect((await tree.files.list('/', 10)).entries.map(({ kind }) => kind)).toEqual(['other', 'other'])
    await tree.files.remove('/pipe')
    server.close()
  })

  it('of devices are refused, and so is everything in the file systems of the kernel', async () => {
    const system = filesBelow('/')
    const link = inRoot('into-proc')
    await symlink('/proc/self/root', link)
    for (const path of ['/dev/null', '/dev/zero']) {
      expect(await codesOf(path, ['read', 'write'], system)).toEqual(allAre('ERR_FILE_REFUSED', ['read', 'write']))
    }
    const looking = ['stat', 'list', 'read']
    for (const path of ['/proc', '/proc/self/status', '/proc/self/cwd/x', '/dev/stdin', '/sys/kernel', `${link}/etc`]) {
      expect(await codesOf(path, looking, system), path).toEqual(allAre('ERR_FILE_REFUSED', looking))
    }
    expect(await codesOf('/proc/self/comm', ['write'], system)).toEqual({ write: 'ERR_FILE_REFUSED' })
    expect(await codesOf('/self/status', looking, filesBelow('/proc'))).toEqual(allAre('ERR_FILE_REFUSED', looking))
    expect((await system.list('/', 1_000)).entries).toContainEqual(
      expect.objectContaining({ name: 'proc', kind: 'dir' }),
    )
  })
})

describe('as root of a user namespace with a small disk', () => {
  it('keeps the old content when the disk is full, and leaves what is mounted alone', async () => {
    const script = join(import.meta.dirname, '../../../test/support/small-disk-process.ts')
    const { code, stdout, stderr } = await runNode([script, tree.root], 180_000)
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toEqual({
      full: 'ERR_DISK_FULL',
      fullStream: 'ERR_DISK_FULL',
      retained: 'old',
      namesAfterFull: ['kept'],
      readOnly: 'ERR_FILE_REFUSED',
      removeMount: 'ERR_FILE_REFUSED',
      removeHolder: 'ERR_FILE_REFUSED',
      moveAcross: 'ERR_FILE_REFUSED',
      bindOfProc: 'ERR_FILE_REFUSED',
      stillMounted: 'old',
    })
  })
})
