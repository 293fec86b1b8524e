import { readdirSync, statSync } from 'node:fs'
import { chmod, chown, link, lstat, mkdir, readdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { filesBelow, makeFileTree, textOf } from '../../../test/support/file-tree.ts'
import { AppError } from '../../contract/app-error.ts'

let tree: Awaited<ReturnType<typeof makeFileTree>>
let openBefore: number
const openHandles = (): number => readdirSync('/proc/self/fd').length

beforeEach(async () => {
  tree = await makeFileTree()
  openBefore = openHandles()
})
afterEach(async () => {
  await expect.poll(openHandles, { message: 'handles stay open' }).toBeLessThanOrEqual(openBefore)
  await tree[Symbol.asyncDispose]()
})

const inRoot = (path: string): string => join(tree.root, path)
const readText = async (path: string): Promise<string> => textOf(await tree.files.read(path))
const modeOf = async (path: string): Promise<number> => (await lstat(inRoot(path))).mode & 0o7777

describe('write', () => {
  it('makes missing parents, says how much it wrote, and leaves nothing beside it', async () => {
    expect(await tree.files.write('/a/b/c.txt', Buffer.from('hällo'))).toEqual({ bytes: 6 })
    expect(await readFile(inRoot('a/b/c.txt'), 'utf8')).toBe('hällo')
    expect(await readdir(inRoot('a/b'))).toEqual(['c.txt'])
    expect([await modeOf('a'), await modeOf('a/b'), await modeOf('a/b/c.txt')]).toEqual([0o755, 0o755, 0o644])
  })

  it('keeps the mode of the file it replaces unless one is given, but not the bits that lend rights', async () => {
    await writeFile(inRoot('kept'), 'old')
    await chmod(inRoot('kept'), 0o4750)
    await tree.files.write('/kept', Buffer.from('new'))
    expect(await modeOf('kept')).toBe(0o750)
    await tree.files.write('/kept', Buffer.from('newer'), { mode: 0o600 })
    expect(await modeOf('kept')).toBe(0o600)
    await tree.files.write('/private/made', Buffer.from('x'), { mode: 0o400 })
    expect(await modeOf('private/made')).toBe(0o400)
    await tree.files.write('/private/made', Buffer.from('y'))
    expect([await readText('/private/made'), await modeOf('private/made')]).toEqual(['y', 0o400])
  })

  it('gives new files and directories to the owner, and leaves a replaced file with its own', async () => {
    const other = { uid: 54_321, gid: 54_322 }
    const own = { uid: process.geteuid!(), gid: process.getegid!() }
    await writeFile(inRoot('probe'), '')
    // Only root may change owners, and only to ids that its user namespace maps.
    const owner = await chown(inRoot('probe'), other.uid, other.gid).then(
      () => other,
      () => own,
    )
    await writeFile(inRoot('mine'), '')
    const files = filesBelow(tree.root, { owner })
    await files.write('/d/e/f', Buffer.from('x'))
    await files.makeDirectory('/g/h')
    for (const path of ['d', 'd/e', 'd/e/f', 'g', 'g/h']) expect(await lstat(inRoot(path))).toMatchObject(owner)
    await files.write('/mine', Buffer.from('x'))
    expect(await lstat(inRoot('mine'))).toMatchObject(own)
  })

  it('takes a stream of any size and goes no faster than the disk', async () => {
    const chunk = Buffer.alloc(64 * 1024, 'x')
    let producedCount = 0
    let leadMax = 0
    const source = new Readable({
      read() {
        const bytesOnDisk = readdirSync(tree.root).reduce((sum, name) => sum + statSync(inRoot(name)).size, 0)
        leadMax = Math.max(leadMax, producedCount * chunk.length - bytesOnDisk)
        producedCount += 1
        this.push(producedCount <= 320 ? chunk : null)
      },
    })
    expect(await tree.files.write('/big', source)).toEqual({ bytes: 320 * chunk.length })
    expect((await lstat(inRoot('big'))).size).toBe(320 * chunk.length)
    expect(leadMax).toBeLessThan(1024 * 1024)
    const texts = Readable.from(['ä', 'b'])
    expect(await tree.files.write('/texts', texts)).toEqual({ bytes: 3 })
  })

  it.each([
    ['is destroyed', (source: PassThrough) => source.destroy(), 'ERR_CANCELLED'],
    ['fails', (source: PassThrough) => source.destroy(new Error('cable')), 'ERR_CANCELLED'],
    [
      'fails with our own error',
      (source: PassThrough) => source.destroy(new AppError('ERR_TOO_LARGE', 'x')),
      'ERR_TOO_LARGE',
    ],
  ])('leaves the old content and nothing else when the source %s', async (_what, end, code) => {
    await writeFile(inRoot('file'), 'old')
    const source = new PassThrough()
    source.write('new')
    const written = tree.files.write('/file', source)
    const outcome = expect(written).rejects.toMatchObject({ code })
    await expect.poll(() => readdir(inRoot('.'))).toHaveLength(2)
    end(source)
    await outcome
    expect(await readdir(inRoot('.'))).toEqual(['file'])
    expect(await readText('/file')).toBe('old')
  })

  it('survives a source that failed before anybody read it, and ends one that is not needed', async () => {
    const failing = new Readable({ read() {} })
    const written = tree.files.write('/file', failing)
    failing.destroy(new Error('early'))
    await expect(written).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
    await mkdir(inRoot('dir'))
    for (const path of ['/dir', 'relative', '/dir/../']) {
      const source = new PassThrough()
      await expect(tree.files.write(path, source)).rejects.toBeInstanceOf(AppError)
      expect(source.destroyed).toBe(true)
    }
    expect(await readdir(inRoot('.'))).toEqual(['dir'])
  })

  it('writes to what a link means, and makes the missing target of one', async () => {
    await writeFile(inRoot('real'), 'old')
    await symlink('real', inRoot('link'))
    await symlink('/made/by/link', inRoot('dangling'))
    await tree.files.write('/link', Buffer.from('new'))
    await tree.files.write('/dangling', Buffer.from('made'))
    expect([await readText('/real'), await readText('/made/by/link')]).toEqual(['new', 'made'])
    expect((await lstat(inRoot('link'))).isSymbolicLink()).toBe(true)
    expect((await lstat(inRoot('dangling'))).isSymbolicLink()).toBe(true)
  })

  it('parts a file from its other hard links instead of changing them', async () => {
    await writeFile(join(tree.outside, 'canary'), 'canary')
    await chmod(join(tree.outside, 'canary'), 0o640)
    await link(join(tree.outside, 'canary'), inRoot('hard'))
    await tree.files.write('/hard', Buffer.from('mine'), { mode: 0o777 })
    expect(await readFile(join(tree.outside, 'canary'), 'utf8')).toBe('canary')
    expect((await lstat(join(tree.outside, 'canary'))).mode & 0o777).toBe(0o640)
    expect(await readText('/hard')).toBe('mine')
  })

  it('has the old content or the new at every moment', async () => {
    const versions = ['a', 'b'].map((letter) => letter.repeat(200_000))
    await writeFile(inRoot('file'), versions[0]!)
    const writing = (async () => {
      for (let round = 0; round < 40; round += 1) await tree.files.write('/file', Buffer.from(versions[round % 2]!))
    })()
    let isDone = false
    const ended = writing.then(() => {
      isDone = true
    })
    while (!isDone) expect(versions).toContain(await readFile(inRoot('file'), 'utf8'))
    await ended
  })
})

describe('read', () => {
  it('answers the whole file or a range of it, and the size of the file', async () => {
    await writeFile(inRoot('f'), '0123456789')
    const range = async (offset: number, length: number) => {
      const content = await tree.files.read('/f', { offset, length })
      expect(content.size).toBe(10)
      return textOf(content)
    }
    expect(await readText('/f')).toBe('0123456789')
    expect([await range(0, 3), await range(8, 100), await range(10, 5), await range(99, 5), await range(3, 0)]).toEqual(
      ['012', '89', '', '', ''],
    )
    expect(await range(4, Number.MAX_SAFE_INTEGER)).toBe('456789')
  })

  it('does not run after a file that grows', async () => {
    await writeFile(inRoot('log'), 'x'.repeat(300_000))
    const content = await tree.files.read('/log')
    await writeFile(inRoot('log'), 'y'.repeat(300_000), { flag: 'a' })
    expect(await textOf(content)).toBe('x'.repeat(300_000))
  })

  it('closes its file when the reader goes away', async () => {
    await writeFile(inRoot('f'), 'x'.repeat(300_000))
    const { stream } = await tree.files.read('/f')
    for await (const _chunk of stream) break
    const untouched = await tree.files.read('/f')
    untouched.stream.destroy()
    expect(stream.destroyed).toBe(true)
  })
})

describe('list', () => {
  it('sorts by name, tells the kinds apart and follows nothing', async () => {
    await mkdir(inRoot('d'))
    await writeFile(inRoot('d/b'), 'four')
    await chmod(inRoot('d/b'), 0o640)
    await utimes(inRoot('d/b'), 1_000, 1_234.5)
    await mkdir(inRoot('d/a'))
    await symlink('/d/b', inRoot('d/é'))
    await symlink('nowhere', inRoot('d/z'))
    await symlink('/d', inRoot('link'))
    const { entries, truncated } = await tree.files.list('/link', 100)
    expect(entries.map(({ name, kind }) => [name, kind])).toEqual([
      ['a', 'dir'],
      ['b', 'file'],
      ['z', 'symlink'],
      ['é', 'symlink'],
    ])
    expect(entries[1]).toEqual({ name: 'b', kind: 'file', size: 4, mode: 0o640, modifiedMs: 1_234_500 })
    expect(truncated).toBe(false)
  })

  it('gives the first names of a large directory and says that there are more', async () => {
    await mkdir(inRoot('many'))
    const names = Array.from({ length: 3_000 }, (_, index) => `n${String((index * 7919) % 3_000).padStart(4, '0')}`)
    await Promise.all(names.map((name) => writeFile(inRoot(`many/${name}`), '')))
    const sorted = names.toSorted()
    const displayed = async (limit: number) => {
      const { entries, truncated } = await tree.files.list('/many', limit)
      return [entries.map(({ name }) => name), truncated] as const
    }
    expect(await displayed(10)).toEqual([sorted.slice(0, 10), true])
    expect(await displayed(2_999)).toEqual([sorted.slice(0, 2_999), true])
    expect(await displayed(3_000)).toEqual([sorted, false])
  })

  it('shows names that are not UTF-8, which can be removed with their directory', async () => {
    await mkdir(inRoot('d'))
    await writeFile(Buffer.concat([Buffer.from(inRoot('d/')), Buffer.from([0x61, 0xff])]), '')
    expect((await tree.files.list('/d', 10)).entries).toMatchObject([{ name: 'a\ufffd', kind: 'file' }])
    await tree.files.remove('/d', { recursive: true })
    expect(await readdir(tree.root)).toEqual([])
  })
})

describe('stat', () => {
  it('describes what a link leads to, and the link itself when it leads nowhere', async () => {
    await writeFile(inRoot('f'), 'four')
    await symlink('/f', inRoot('one'))
    await symlink('one', inRoot('two'))
    await symlink('gone', inRoot('dangling'))
    await symlink('dangling', inRoot('far'))
    expect(await tree.files.stat('/two')).toMatchObject({ name: 'two', kind: 'file', size: 4 })
    expect(await tree.files.stat('/dangling')).toMatchObject({ name: 'dangling', kind: 'symlink' })
    expect(await tree.files.stat('/far')).toMatchObject({ name: 'far', kind: 'symlink', size: 'dangling'.length })
    expect(await tree.files.stat('/')).toMatchObject({ name: '/', kind: 'dir' })
    await expect(tree.files.stat('/dangling/')).rejects.toMatchObject({ code: 'ERR_FILE_NOT_FOUND' })
  })
})

describe('rename, remove and makeDirectory', () => {
  it('move links and directories as they are, over what a rename may replace', async () => {
    await mkdir(inRoot('d'))
    await writeFile(inRoot('f'), 'f')
    await symlink('f', inRoot('l'))
    await tree.files.rename('/l', '/d/l')
    await tree.files.rename('/f', '/d/f')
    await tree.files.rename('/d/', '/e/')
    expect((await readdir(inRoot('e'))).toSorted()).toEqual(['f', 'l'])
    expect((await lstat(inRoot('e/l'))).isSymbolicLink()).toBe(true)
    await writeFile(inRoot('g'), 'g')
    await tree.files.rename('/g', '/e/f')
    expect(await readText('/e/f')).toBe('g')
  })

  it('remove links instead of what they mean, and trees with everything in them', async () => {
    await mkdir(join(tree.outside, 'kept'))
    await writeFile(join(tree.outside, 'kept/canary'), 'canary')
    await mkdir(inRoot('d/deep/er'), { recursive: true })
    await symlink('../../outside', inRoot('d/relative'))
    await symlink(tree.outside, inRoot('d/deep/absolute'))
    await writeFile(inRoot('d/deep/er/f'), '')
    await symlink('d', inRoot('link'))
    await expect(tree.files.remove('/d')).rejects.toMatchObject({ code: 'ERR_ALREADY_EXISTS' })
    await tree.files.remove('/link', { recursive: true })
    expect(await readdir(tree.root)).toEqual(['d'])
    await tree.files.remove('/d', { recursive: true })
    expect(await readdir(tree.root)).toEqual([])
    expect(await readdir(tree.outside, { recursive: true })).toEqual(['kept', 'kept/canary'])
    await tree.files.makeDirectory('/empty/inner')
    await tree.files.remove('/empty/inner')
    expect(await readdir(inRoot('empty'))).toEqual([])
  })

  it('remove a directory with more entries than are read at once, of all kinds', async () => {
    await mkdir(inRoot('many'))
    const numbers = Array.from({ length: 2_500 }, (_, index) => index)
    await Promise.all(
      numbers.map((n) => (n % 5 === 0 ? mkdir(inRoot(`many/${n}`)) : writeFile(inRoot(`many/${n}`), ''))),
    )
    await tree.files.remove('/many', { recursive: true })
    expect(await readdir(tree.root)).toEqual([])
  })

  it('go as deep as the tree, with few open files', async () => {
    const deep = `/${'d/'.repeat(800)}`
    await tree.files.makeDirectory(deep)
    await tree.files.write(`${deep}f`, Buffer.from('deep'))
    expect(openHandles()).toBeLessThanOrEqual(openBefore)
    expect(await readText(`${deep}f`)).toBe('deep')
    expect(await tree.files.stat(`${'/d'.repeat(800)}${'/..'.repeat(800)}`)).toMatchObject({ kind: 'dir' })
    await tree.files.remove('/d', { recursive: true })
    expect(await readdir(tree.root)).toEqual([])
  })

  it('make a directory once and find it the second time, through links too', async () => {
    await symlink('target', inRoot('link'))
    await tree.files.makeDirectory('/link/inner/')
    await tree.files.makeDirectory('/link/inner')
    await tree.files.makeDirectory('/')
    expect((await lstat(inRoot('target/inner'))).isDirectory()).toBe(true)
  })
})
