import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { filesBelow, makeFileTree, textOf } from '../../../test/support/file-tree.ts'
import type { WorkspaceFiles } from '../../domains/workspaces/backend.ts'

let tree: Awaited<ReturnType<typeof makeFileTree>>
let files: WorkspaceFiles
beforeEach(async () => {
  tree = await makeFileTree()
  await mkdir(join(tree.root, 'workspace/in'), { recursive: true })
  await mkdir(join(tree.root, 'etc'))
  await writeFile(join(tree.root, 'etc/secret'), 'secret')
  await writeFile(join(tree.root, 'workspace/in/a'), 'a')
  files = filesBelow(tree.root, { within: [['/workspace']] })
})
afterEach(() => tree[Symbol.asyncDispose]())

const link = (target: string, path: string) => symlink(target, join(tree.root, path))
const violation = { code: 'ERR_POLICY_VIOLATION', details: { violation: 'PathOutsideBoundary' } }

describe('a fence', () => {
  it('lets everything happen inside, and the place itself be listed', async () => {
    await files.write('/workspace/new/b', Buffer.from('b'))
    await link('in/a', 'workspace/inner')
    await link('/workspace/in', 'workspace/absolute')
    expect(await textOf(await files.read('/workspace/inner'))).toBe('a')
    expect(await textOf(await files.read('/workspace/absolute/a'))).toBe('a')
    expect((await files.list('/workspace', 10)).entries.map(({ name }) => name)).toContain('new')
    expect((await files.stat('/workspace')).kind).toBe('dir')
  })

  it.each([
    ['a link to a file', '/etc/secret', '/workspace/link'],
    ['a link to a folder', '/etc', '/workspace/link/secret'],
    ['a relative link', '../etc', '/workspace/link/secret'],
    ['a link to the root', '/', '/workspace/link/etc/secret'],
    ['a link that climbs over the root', '../../../../etc', '/workspace/link/secret'],
    ['a link through the kernel', '/proc/self/root', '/workspace/link/etc/secret'],
    ['a link to nothing', '/etc/none/x', '/workspace/link'],
  ])('holds against %s, in every way to use it', async (_what, target, path) => {
    await link(target, 'workspace/link')
    await writeFile(join(tree.root, 'workspace/moved'), '')
    await expect(files.read(path)).rejects.toMatchObject(violation)
    await expect(files.stat(path)).rejects.toMatchObject(violation)
    await expect(files.list(path, 10)).rejects.toMatchObject(violation)
    await expect(files.write(path, Buffer.from('changed'))).rejects.toMatchObject(violation)
    await expect(files.write(`${path}/deeper/x`, Buffer.from('changed'))).rejects.toMatchObject(violation)
    await expect(files.makeDirectory(`${path}/deeper`)).rejects.toMatchObject(violation)
    await expect(files.remove(`${path}/x`, { recursive: true })).rejects.toMatchObject(violation)
    await expect(files.rename('/workspace/moved', `${path}/x`)).rejects.toMatchObject(violation)
    await expect(files.rename(`${path}/x`, '/workspace/stolen')).rejects.toMatchObject(violation)
    expect(await readFile(join(tree.root, 'etc/secret'), 'utf8')).toBe('secret')
    expect(await readdir(join(tree.root, 'etc'))).toEqual(['secret'])
  })

  it('does not tell whether something outside exists, and makes nothing there', async () => {
    for (const path of ['/etc/secret', '/etc/none', '/none/x', '/workspace2/x', '/workspace/../etc/secret', '/']) {
      await expect(files.read(path)).rejects.toMatchObject(violation)
      await expect(files.makeDirectory(path)).rejects.toMatchObject(violation)
    }
    expect(existsSync(join(tree.root, 'none'))).toBe(false)
  })

  it('removes a link that leads out, and not what it leads to', async () => {
    await link('/etc', 'workspace/link')
    await files.remove('/workspace/link')
    await link('/etc', 'workspace/in/link')
    await files.remove('/workspace/in', { recursive: true })
    expect(await readFile(join(tree.root, 'etc/secret'), 'utf8')).toBe('secret')
  })

  it('is as narrow as the narrowest of its lists, and knows one level', async () => {
    const narrow = filesBelow(tree.root, {
      within: [
        ['/workspace', '/etc'],
        ['/workspace/in/*', '/etc/none'],
      ],
    })
    expect(await textOf(await narrow.read('/workspace/in/a'))).toBe('a')
    await expect(narrow.list('/workspace/in', 5)).rejects.toMatchObject(violation)
    await expect(narrow.write('/workspace/in/b/c', Buffer.from(''))).rejects.toMatchObject(violation)
    await expect(narrow.read('/etc/secret')).rejects.toMatchObject(violation)
    await narrow.write('/etc/none/x', Buffer.from(''))
  })

  it('may allow nothing', async () => {
    const closed = filesBelow(tree.root, { within: [[]] })
    await expect(closed.stat('/workspace')).rejects.toMatchObject(violation)
    await expect(closed.stat('/')).rejects.toMatchObject(violation)
  })
})
