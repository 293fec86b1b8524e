import { lstat, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { writeImageArchive } from '../../../test/support/oci-image.ts'
import { systemClock } from '../../kernel/clock.ts'
import { systemRandom } from '../../kernel/random.ts'
import type { BuildEnvironment } from './build-environment.ts'
import { buildImage } from './build-image.ts'
import { createImages } from './index.ts'

let folder: string
let root: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'castellan-images-'))
  root = join(folder, 'images')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** As in the supervisor, which is already inside the namespace. */
const buildEnvironment: BuildEnvironment = {
  idCount: 1,
  limitation: undefined,
  owner: { uid: process.getuid!(), gid: process.getgid!() },
  enterArgv: () => [],
}

it('finds the image of this machine, made at its first use', async () => {
  const images = createImages({ root })
  const host = await images.find('host')
  expect(host).toMatchObject({ root: join(root, 'host/rootfs'), packages: false })
  expect(host.binds).toContainEqual({ source: '/usr', target: '/usr' })
  expect(await readFile(join(host.root, 'etc/passwd'), 'utf8')).toMatch(/^root:/)
  const { ino } = await lstat(host.root)
  await Promise.all([images.find('host'), images.find('host'), createImages({ root }).find('host')])
  expect((await lstat(host.root)).ino).toBe(ino)
})

it('lists and finds images that were built, beside it', async () => {
  const archive = join(folder, 'archive.tar')
  await writeImageArchive(archive, [[{ name: 'x', content: '1', uid: process.getuid!() }]])
  const source = { kind: 'oci-archive', path: archive } as const
  const signal = new AbortController().signal
  const request = { name: 'small', source, bytesMax: 2 ** 20, environment: {}, signal, onProgress() {} }
  await buildImage({ buildEnvironment, root, clock: systemClock, random: systemRandom }, request)
  const images = createImages({ root })
  expect((await images.list()).map(({ name, source }) => [name, source])).toEqual([
    ['host', 'host'],
    ['small', 'oci-archive'],
  ])
  expect(await images.find('small')).toEqual({ root: join(root, 'small/rootfs'), packages: false, binds: [] })
})

it.each([
  ['absent', 'ERR_NOT_FOUND'],
  ['../small', 'ERR_INVALID_INPUT'],
  ['.building-x', 'ERR_INVALID_INPUT'],
])('answers for %j with %s', async (name, code) => {
  await expect(createImages({ root }).find(name)).rejects.toMatchObject({ code })
})
