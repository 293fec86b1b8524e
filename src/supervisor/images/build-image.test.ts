import { execFileSync } from 'node:child_process'
import { readdirSync, symlinkSync } from 'node:fs'
import {
  chmod,
  chown,
  lstat,
  symlink as makeSymlink,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { brokenArchives } from '../../../test/support/broken-archives.ts'
import {
  directory,
  hardlink,
  type LayerFile,
  type OciOptions,
  shellLayer,
  symlink,
  writeImageArchive,
} from '../../../test/support/oci-image.ts'
import { systemClock } from '../../kernel/clock.ts'
import { systemRandom } from '../../kernel/random.ts'
import { openUserNamespace, SYSTEM_PATH, type UserNamespace } from '../user-namespace.ts'
import { type BuildImageRequest, type BuiltImage, buildImage, type ImageSource } from './build-image.ts'
import { listImages, removeImage, withFolderLock } from './image-folder.ts'

let buildEnvironment: UserNamespace
beforeAll(async () => {
  buildEnvironment = await openUserNamespace()
})
afterAll(() => buildEnvironment.close())

let folder: string
let root: string
let archive: string
beforeEach(async () => {
  // Only the owner may enter, as with a data directory.
  folder = await mkdtemp(join(tmpdir(), 'castellan-image-'))
  root = join(folder, 'images')
  archive = join(folder, 'archive.tar')
})
afterEach(async () => {
  // Files of an ordinary user's subordinate ids can only be removed inside the namespace.
  const argv = process.getuid!() === 0 ? ['rm', '-rf', folder] : [...buildEnvironment.enterArgv(), 'rm', '-rf', folder]
  execFileSync(argv[0]!, argv.slice(1), { env: { PATH: SYSTEM_PATH } })
})

const deps = () => ({ buildEnvironment, root, clock: systemClock, random: systemRandom })
const never = new AbortController().signal

const build = (source: ImageSource, more: Partial<BuildImageRequest> = {}): Promise<BuiltImage> =>
  buildImage(deps(), {
    name: 'sample',
    source,
    bytesMax: 2 ** 30,
    environment: {},
    signal: never,
    onProgress() {},
    ...more,
  })

async function buildLayers(layers: readonly (readonly LayerFile[])[], options: OciOptions = {}): Promise<BuiltImage> {
  await writeImageArchive(archive, layers, options)
  return await build({ kind: 'oci-archive', path: archive })
}

const inside = (name: string): string => join(root, 'sample', 'rootfs', name)
const textOf = (name: string): Promise<string> => readFile(inside(name), 'utf8')
/** Maps the id outside to the id inside; with a single id every file belongs to root. */
const ownerOf = async (name: string): Promise<number> => {
  const { uid } = await lstat(inside(name))
  const [program, ...args] = [...buildEnvironment.enterArgv(), 'cat', '/proc/self/uid_map']
  const map = execFileSync(program!, args, { encoding: 'utf8', env: { PATH: SYSTEM_PATH } })
  for (const line of map.trim().split('\n')) {
    const [first, outside, count] = line.trim().split(/\s+/).map(Number)
    if (uid >= outside! && uid < outside! + count!) return first! + uid - outside!
  }
  throw new Error(`id ${uid} is not of this namespace`)
}
const ids = (id: number): number => (buildEnvironment.idCount === 1 ? 0 : id)

function runInside(command: string): string {
  const argv = [...buildEnvironment.enterArgv(), 'chroot', './sample/rootfs', '/bin/sh', '-c', command]
  return execFileSync(argv[0]!, argv.slice(1), { cwd: root, encoding: 'utf8', env: { PATH: SYSTEM_PATH } })
}

/** Runs as root, which may follow links of other users; an ordinary user gains nothing by them. */
it('is led astray by no link that the owner of the folder puts into it', async () => {
  const victim = join(folder, 'victim')
  await writeFile(victim, 'untouched')
  await writeImageArchive(archive, [shellLayer()])
  const onProgress = (text: string): void => {
    const hidden = readdirSync(root).find((name) => name.startsWith('.building-'))
    if (text === 'Writing to disk') symlinkSync(victim, join(root, hidden!, 'image.json'))
  }
  await expect(build({ kind: 'oci-archive', path: archive }, { onProgress })).rejects.toMatchObject({
    code: 'ERR_INIT_FAILED',
  })
  expect(await readFile(victim, 'utf8')).toBe('untouched')
  expect(await readdir(root)).toEqual([])
})

describe.each([
  { format: 'oci', compression: 'gzip' },
  { format: 'oci', compression: 'zstd' },
  { format: 'oci', compression: 'none' },
  { format: 'docker' },
] as const)('an archive in $format, $compression', (options) => {
  it('becomes a root file system in which programs run', async () => {
    const image = await buildLayers([shellLayer(), [{ name: 'etc/greeting', content: 'hello\n' }]], options)
    expect(image).toMatchObject({
      name: 'sample',
      source: 'oci-archive',
      packages: buildEnvironment.idCount > 1,
      notes: [],
    })
    expect(image.bytes).toBeGreaterThan(50_000)
    expect(runInside('read line < /etc/greeting; echo "$line from $PWD"')).toBe('hello from /\n')
    expect(await listImages(root)).toEqual([expect.objectContaining({ name: 'sample', bytes: image.bytes })])
  })
})

describe('what an image says for its commands', () => {
  it.each(['oci', 'docker'] as const)('is kept, as far as it can be used (%s)', async (format) => {
    const Env = ['PATH=/opt/bin:/usr/bin', 'EMPTY=', 'EQUALS=a=b', 'nonsense', '=nameless', 5]
    const image = await buildLayers([shellLayer()], { format, config: { Env, WorkingDir: '/app' } })
    const retained = { env: { PATH: '/opt/bin:/usr/bin', EMPTY: '', EQUALS: 'a=b' }, workdir: '/app' }
    expect(image).toMatchObject(retained)
    expect(await listImages(root)).toMatchObject([retained])
  })

  it.each([{}, { Env: null, WorkingDir: '' }, { Env: [], WorkingDir: 'app' }])('may be nothing: %j', async (config) => {
    const { env, workdir } = await buildLayers([shellLayer()], { config })
    expect([env, workdir]).toEqual([undefined, undefined])
  })

  it('has a bound', async () => {
    const options = { config: { Env: [`LARGE=${'x'.repeat(70_000)}`] } }
    await expect(buildLayers([shellLayer()], options)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })
})

describe('layers', () => {
  it('keep owners, modes, times and links', async () => {
    await buildLayers([
      [
        directory('./', { mode: 0o755 }),
        directory('srv/', { mode: 0o2750, uid: 33, gid: 34, modifiedSecs: 1_600_000_000 }),
        { name: 'srv/tool', content: 'x', mode: 0o4755, uid: 1000, gid: 1000, modifiedSecs: 1_500_000_000 },
        hardlink('srv/same', 'srv/tool'),
        symlink('srv/up', '../../../../etc/passwd'),
        { name: 'srv/pipe', kind: 'fifo', mode: 0o600 },
        { name: `srv/${'long'.repeat(40)}`, content: 'long' },
      ],
    ])
    expect(await ownerOf('srv/tool')).toBe(ids(1000))
    expect(await ownerOf('srv')).toBe(ids(33))
    const tool = await stat(inside('srv/tool'))
    expect(tool).toMatchObject({ mode: 0o104755, nlink: 2, mtimeMs: 1_500_000_000_000 })
    expect((await stat(inside('srv/same'))).ino).toBe(tool.ino)
    expect(await stat(inside('srv'))).toMatchObject({ mode: 0o42750, mtimeMs: 1_600_000_000_000 })
    expect(await readlink(inside('srv/up'))).toBe('../../../../etc/passwd')
    expect((await lstat(inside('srv/pipe'))).isFIFO()).toBe(true)
    expect(await textOf(`srv/${'long'.repeat(40)}`)).toBe('long')
  })

  it('take away and replace what is below them', async () => {
    await buildLayers([
      [
        { name: 'keep', content: '1' },
        { name: 'gone', content: '1' },
        { name: 'folder/old', content: '1' },
        { name: 'folder/sub/old', content: '1' },
        { name: 'was-folder/x', content: '1' },
        { name: 'was-file', content: '1' },
        symlink('was-link', 'folder'),
        { name: 'again', content: '1' },
      ],
      [
        { name: 'folder/new', content: '2' },
        { name: 'folder/.wh..wh..opq' },
        { name: '.wh.gone' },
        { name: 'again', content: '2' },
        { name: '.wh.again' },
        { name: '.wh.never-there' },
        { name: '.wh..wh.aufs' },
        { name: 'was-folder', content: '2' },
        directory('was-link'),
        { name: 'was-link/x', content: '2' },
      ],
      [directory('was-file'), { name: 'was-file/x', content: '3' }],
    ])
    expect(await readdir(inside('folder'))).toEqual(['new'])
    const names = (await readdir(inside('.'))).filter(
      (name) => !/^(proc|sys|dev|run|workspace|tmp|root|etc)$/.test(name),
    )
    expect(names.sort()).toEqual(['again', 'folder', 'keep', 'was-file', 'was-folder', 'was-link'])
    expect(await textOf('again')).toBe('2')
    expect(await textOf('was-folder')).toBe('2')
    expect(await textOf('was-file/x')).toBe('3')
    expect(await textOf('was-link/x')).toBe('2')
  })

  it('go through links inside the image, as a workspace would', async () => {
    await buildLayers([
      [symlink('lib', 'usr/lib'), symlink('opt', '/srv/opt'), directory('usr/lib')],
      [
        { name: 'lib/one', content: '1' },
        { name: 'opt/two', content: '2' },
      ],
    ])
    expect(await textOf('usr/lib/one')).toBe('1')
    expect(await textOf('srv/opt/two')).toBe('2')
    expect(await readlink(inside('lib'))).toBe('usr/lib')
  })

  it('leave out devices and say so', async () => {
    const { notes } = await buildLayers([
      [
        { name: 'etc/x', content: '1' },
        { name: 'dev/null', kind: 'device' },
      ],
    ])
    expect(notes).toEqual(['1 device files were left out; a workspace has its own.'])
    expect(await readdir(inside('dev'))).toEqual([])
  })

  it('give files of ids that there are not to nobody, and say so', async () => {
    const { notes } = await buildLayers([[{ name: 'x', content: '1', uid: 70_000 }]])
    expect(await ownerOf('x')).toBe(ids(65_534))
    expect(notes.join()).toMatch(buildEnvironment.idCount === 1 ? /only one user id/ : /beyond id 65535/)
  })
})

describe('a hostile archive', () => {
  const canary = 'do not touch'
  let outside: string
  beforeEach(async () => {
    outside = join(folder, 'outside')
    await writeFile(outside, canary)
    await chmod(outside, 0o666)
  })
  const deep = '../'.repeat(30)
  const absolute = (): string => join(folder, 'outside')

  it.each<[string, () => readonly (readonly LayerFile[])[]]>([
    ['an absolute name', () => [[{ name: absolute(), content: 'x' }]]],
    ['a name with ..', () => [[{ name: `a/${deep}${absolute()}`, content: 'x' }]]],
    ['a link out and a file through it', () => [[symlink('out', '../../..'), { name: 'out/outside', content: 'x' }]]],
    ['a link out in another layer', () => [[symlink('out', '../../..')], [{ name: 'out/outside', content: 'x' }]]],
    ['a whiteout through a link out', () => [[symlink('out', '../../..')], [{ name: 'out/.wh.outside' }]]],
    ['an opaque mark through a link out', () => [[symlink('out', '../../..')], [{ name: 'out/.wh..wh..opq' }]]],
    ['a whiteout of ..', () => [[directory('a')], [{ name: 'a/.wh...' }]]],
    ['a whiteout of the directory itself', () => [[directory('a')], [{ name: 'a/.wh..' }]]],
    ['a hard link to the outside', () => [[hardlink('mine', `${deep}${absolute().slice(1)}`)]]],
    ['a hard link to an absolute name', () => [[hardlink('mine', absolute())]]],
    ['a hard link through a link out', () => [[symlink('out', '../../..'), hardlink('mine', 'out/outside')]]],
    ['a hard link to a file that does not exist', () => [[hardlink('mine', 'absent')]]],
    [
      'a file through a hard link to a link',
      () => [[symlink('s', '../../..'), hardlink('h', 's'), { name: 'h/outside', content: 'x' }]],
    ],
    ['a link without a target', () => [[symlink('s', '')]]],
    ['links in a circle', () => [[symlink('a', 'b'), symlink('b', 'a'), { name: 'a/x' }]]],
  ])('with %s is refused, and nothing is left of it', async (_, layers) => {
    await expect(buildLayers(layers())).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(await readFile(outside, 'utf8')).toBe(canary)
    expect(await readdir(root)).toEqual([])
  })

  it('with absolute links writes only inside', async () => {
    await buildLayers([[symlink('out', folder), { name: 'out/outside', content: 'x' }]])
    expect(await readFile(outside, 'utf8')).toBe(canary)
    expect(await textOf(outside.slice(1))).toBe('x')
  })

  it.each(brokenArchives)('with %s is refused, and nothing is left of it', async (_, options) => {
    const built = buildLayers([[{ name: 'etc/x', content: 'etc/x' }]], options)
    await expect(built).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(await readdir(root)).toEqual([])
  })

  it('that unpacks to more than allowed is refused before it is written', async () => {
    await writeImageArchive(archive, [[{ name: 'zeros', content: Buffer.alloc(8 * 1024 * 1024) }]])
    const built = build({ kind: 'oci-archive', path: archive }, { bytesMax: 1024 * 1024 })
    await expect(built).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    expect(await readdir(root)).toEqual([])
    expect((await stat(archive)).size).toBeLessThan(64 * 1024)
  })

  it.each([
    ['no archive', 'just text, and long enough to be looked at as an archive '.repeat(20)],
    ['an empty file', ''],
  ])('that is %s is refused', async (_, content) => {
    await writeFile(archive, content)
    await expect(build({ kind: 'oci-archive', path: archive })).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })
})

describe('a directory', () => {
  let source: string
  beforeEach(async () => {
    source = join(folder, 'source')
    await mkdir(join(source, 'usr/bin'), { recursive: true })
    await writeFile(join(source, 'usr/bin/tool'), '#!/bin/sh\n')
    await chmod(join(source, 'usr/bin/tool'), 0o4755)
    await writeFile(join(source, 'closed'), 'secret', { mode: 0o600 })
    await makeSymlink('/usr/bin', join(source, 'bin'))
  })

  it('is copied with its owners, modes and links', async () => {
    if (process.getuid!() === 0) await chown(join(source, 'closed'), 1234, 1234)
    const image = await build({ kind: 'directory', path: source })
    expect(image).toMatchObject({ source: 'directory', packages: false, notes: [] })
    expect(await ownerOf('usr')).toBe(0)
    expect(await ownerOf('closed')).toBe(process.getuid!() === 0 ? 1234 : 0)
    expect(await lstat(inside('usr/bin/tool'))).toMatchObject({ mode: 0o104755 })
    expect(await readlink(inside('bin'))).toBe('/usr/bin')
  })

  it('with dpkg in it can install packages, where there are ids for it', async () => {
    await writeFile(join(source, 'usr/bin/dpkg'), '')
    expect(await build({ kind: 'directory', path: source })).toMatchObject({ packages: buildEnvironment.idCount > 1 })
  })

  it('that holds the images themselves is refused, and so is one that is not there', async () => {
    await expect(build({ kind: 'directory', path: folder })).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    await expect(build({ kind: 'directory', path: join(folder, 'no') })).rejects.toMatchObject({
      code: 'ERR_NOT_FOUND',
    })
    expect(await readdir(root)).toEqual([])
  })
})

describe('the folder of images', () => {
  const tiny = [[{ name: 'x', content: '1' }]]

  it('has one image of a name, and loses it when it is removed', async () => {
    await buildLayers(tiny)
    await expect(buildLayers(tiny)).rejects.toMatchObject({ code: 'ERR_ALREADY_EXISTS' })
    await removeImage(deps(), root, 'sample', never)
    expect(await readdir(root)).toEqual([])
    await expect(removeImage(deps(), root, 'sample', never)).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
  })

  it.each(['', '.', '..', 'a/b', '.hidden', 'UPPER', '-x', 'x'.repeat(64), 'host'])(
    'refuses the name %j',
    async (name) => {
      await writeImageArchive(archive, tiny)
      const source: ImageSource = { kind: 'oci-archive', path: archive }
      await expect(build(source, { name })).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
      await expect(removeImage(deps(), root, name, never)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    },
  )

  it('is cleaned of what a build left that died', async () => {
    await buildLayers(tiny)
    await mkdir(join(root, '.building-dead/rootfs'), { recursive: true })
    await mkdir(join(root, '.assembling-by-another'))
    await chown(join(root, '.building-dead'), buildEnvironment.owner.uid, buildEnvironment.owner.gid)
    await chown(join(root, '.building-dead/rootfs'), buildEnvironment.owner.uid, buildEnvironment.owner.gid)
    await writeImageArchive(archive, tiny)
    await build({ kind: 'oci-archive', path: archive }, { name: 'other' })
    expect((await readdir(root)).sort()).toEqual(['.assembling-by-another', 'other', 'sample'])
    await rm(join(root, '.assembling-by-another'), { recursive: true })
  })

  it('is changed by one at a time', async () => {
    await buildLayers(tiny)
    await withFolderLock(root, async () => {
      await expect(removeImage(deps(), root, 'sample', never)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    })
    await removeImage(deps(), root, 'sample', never)
  })

  it('has nothing of a build that was cancelled', async () => {
    await writeImageArchive(archive, [...tiny, ...tiny])
    const abort = new AbortController()
    const built = build(
      { kind: 'oci-archive', path: archive },
      { signal: abort.signal, onProgress: (text) => text.startsWith('Layer 2') && abort.abort() },
    )
    await expect(built).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
    expect(await readdir(root)).toEqual([])
  })
})
