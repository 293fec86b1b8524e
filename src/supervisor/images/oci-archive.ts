import { createHash } from 'node:crypto'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import type { Layer } from './apply-layer.ts'
import { type ArchiveFile, unfit } from './archive-file.ts'

type Descriptor = Readonly<{
  digest: string
  platform: Readonly<{ os?: unknown; architecture?: unknown }> | undefined
}>

/** A layer in the archive: its member, the digest of the stored bytes, and the digest of the uncompressed content. */
type StoredLayer = Readonly<{ member: string; digest: string | undefined; contentDigest: string }>

/** The defaults that the image configures for its commands. */
export type StoredDefaults = Pick<ImageInfo, 'env' | 'workdir'>
type StoredImage = Readonly<{ layers: readonly StoredLayer[]; defaults: StoredDefaults }>

const ENV_BYTES_MAX = 64 * 1024
const WORKDIR_CHARS_MAX = 4096
const LAYERS_MAX = 1_000
const INDEX_DEPTH_MAX = 4
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64', arm: 'arm', ia32: '386' }

/** Selects the image for this machine, with its lowest layer first. Every digest on the way is verified. */
export async function readImageArchive(archive: ArchiveFile, architecture: NodeJS.Architecture): Promise<StoredImage> {
  const requested = architectures[architecture] ?? architecture
  if (archive.has('index.json')) {
    const index = parseJson(await archive.bytes('index.json'))
    return await imageOfIndex(archive, index, requested, 0)
  }
  if (archive.has('manifest.json')) return await imageOfDockerArchive(archive, requested)
  throw unfit('has neither index.json nor manifest.json, so it contains no image')
}

async function imageOfIndex(
  archive: ArchiveFile,
  index: Record<string, unknown>,
  requested: string,
  depth: number,
): Promise<StoredImage> {
  if (depth > INDEX_DEPTH_MAX) throw unfit('nests its indexes too deeply')
  const descriptors = listOf(index['manifests']).map(toDescriptor)
  const fitting = descriptors.filter(({ platform }) => {
    if (platform === undefined) return true
    return platform.os === 'linux' && platform.architecture === requested
  })
  const [chosen] = fitting
  if (chosen === undefined) throw unfit(`has no image for linux on ${requested}`)
  // An image with several tags is listed several times.
  const others = fitting.some(({ digest }) => digest !== chosen.digest)
  if (others && depth === 0) throw unfit('has several images; save one of them alone')
  const document = parseJson(await checkedBlob(archive, chosen.digest))
  if (Array.isArray(document['manifests'])) return await imageOfIndex(archive, document, requested, depth + 1)
  const config = parseJson(await checkedBlob(archive, toDescriptor(document['config']).digest))
  requireArchitecture(config, requested)
  const layers = listOf(document['layers']).map(toDescriptor)
  const stored = pairLayers(
    layers.map(({ digest }) => ({ member: blobName(digest), digest })),
    config,
  )
  return { layers: stored, defaults: defaultsIn(config) }
}

async function imageOfDockerArchive(archive: ArchiveFile, requested: string): Promise<StoredImage> {
  const images = parseJsonValue(await archive.bytes('manifest.json'))
  if (!Array.isArray(images) || images.length === 0) throw unfit('has a manifest.json that names no image')
  if (images.length > 1) throw unfit('has several images; save one of them alone')
  const image = toObject(images[0])
  const configName = image['Config']
  if (typeof configName !== 'string') throw unfit('has a manifest.json without a Config')
  const bytes = await archive.bytes(configName)
  const named = /(?:^|\/)([0-9a-f]{64})(?:\.json)?$/.exec(configName)?.[1]
  if (named !== undefined) requireDigest(bytes, `sha256:${named}`)
  const config = parseJson(bytes)
  requireArchitecture(config, requested)
  const members = listOf(image['Layers']).map((name) => {
    if (typeof name !== 'string') throw unfit('has a manifest.json with a layer that has no name')
    return { member: name, digest: undefined }
  })
  return { layers: pairLayers(members, config), defaults: defaultsIn(config) }
}

/** Only valid entries: names with values, and an absolute path. */
function defaultsIn(description: Record<string, unknown>): StoredDefaults {
  const config = description['config'] == null ? {} : toObject(description['config'])
  const input = (config['Env'] == null ? [] : listOf(config['Env'])).filter((pair) => typeof pair === 'string')
  if (Buffer.byteLength(input.join('')) > ENV_BYTES_MAX) {
    throw unfit(`has variables of more than ${ENV_BYTES_MAX} bytes`)
  }
  const pairs = input
    .filter((pair) => /^[^=\0]+=[^\0]*$/s.test(pair) && pair.isWellFormed())
    .map((pair): [string, string] => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)])
  const workdir = config['WorkingDir']
  const isUsable = typeof workdir === 'string' && /^\/[^\0]+$/s.test(workdir) && workdir.length <= WORKDIR_CHARS_MAX
  return {
    ...(pairs.length === 0 ? {} : { env: Object.fromEntries(pairs) }),
    ...(isUsable && workdir.isWellFormed() ? { workdir } : {}),
  }
}

function requireArchitecture(config: Record<string, unknown>, requested: string): void {
  const { os, architecture } = config
  if ((os === undefined || os === 'linux') && (architecture === undefined || architecture === requested)) return
  throw unfit(`has no image for linux on ${requested}`)
}

function pairLayers(
  members: readonly Readonly<{ member: string; digest: string | undefined }>[],
  config: Record<string, unknown>,
): StoredLayer[] {
  const contents = listOf(toObject(config['rootfs'])['diff_ids'])
  if (members.length === 0) throw unfit('has an image without layers')
  if (members.length > LAYERS_MAX) throw unfit(`has more than ${LAYERS_MAX} layers`)
  if (contents.length !== members.length) throw unfit('has a configuration that does not match its layers')
  return members.map((member, index) => ({ ...member, contentDigest: requireDigestText(contents[index]) }))
}

export function openLayer(archive: ArchiveFile, { member, digest, contentDigest }: StoredLayer): Layer {
  return { open: () => hashed(unpacked(hashed(archive.stream(member), digest)), contentDigest) }
}

/** Detects the compression from the bytes, not from the media type in the index. */
async function* unpacked(packed: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const iterator = packed[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done === true) return
  const whole = Readable.from(
    (async function* () {
      yield first.value
      yield* { [Symbol.asyncIterator]: () => iterator }
    })(),
    { objectMode: false },
  )
  const [a, b, c, d] = first.value
  const isGzip = a === 0x1f && b === 0x8b
  const isZstandard = a === 0x28 && b === 0xb5 && c === 0x2f && d === 0xfd
  if (!isGzip && !isZstandard) {
    yield* whole
    return
  }
  const decoder = isGzip ? createGunzip() : createZstdDecompress()
  // An error of either stream destroys the other; the reader gets it from the decoder.
  pipeline(whole, decoder, () => {})
  try {
    yield* decoder
  } catch (error) {
    if (error instanceof AppError) throw error
    throw unfit('has a layer that cannot be unpacked')
  }
}

async function* hashed(source: AsyncIterable<Uint8Array>, digest: string | undefined): AsyncGenerator<Uint8Array> {
  if (digest === undefined) {
    yield* source
    return
  }
  const [algorithm, expected] = digest.split(':')
  const hash = createHash(algorithm!)
  for await (const part of source) {
    hash.update(part)
    yield part
  }
  if (hash.digest('hex') !== expected) throw notAsPromised()
}

async function checkedBlob(archive: ArchiveFile, digest: string): Promise<Buffer> {
  const bytes = await archive.bytes(blobName(digest))
  requireDigest(bytes, digest)
  return bytes
}

function requireDigest(bytes: Uint8Array, digest: string): void {
  const [algorithm, expected] = digest.split(':')
  if (createHash(algorithm!).update(bytes).digest('hex') !== expected) throw notAsPromised()
}

const notAsPromised = (): AppError => unfit('has content that does not match its digest')
const blobName = (digest: string): string => `blobs/${digest.replace(':', '/')}`

function requireDigestText(value: unknown): string {
  if (typeof value === 'string' && /^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/.test(value)) return value
  throw unfit('has an invalid digest')
}

function toDescriptor(value: unknown): Descriptor {
  const { digest, platform } = toObject(value)
  return {
    digest: requireDigestText(digest),
    platform: platform === undefined ? undefined : toObject(platform),
  }
}

const listOf = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value
  throw unfit('has a manifest without a required list')
}

const toObject = (value: unknown): Record<string, unknown> => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw unfit('has a manifest with a field of the wrong type')
}

const parseJson = (bytes: Buffer): Record<string, unknown> => toObject(parseJsonValue(bytes))

function parseJsonValue(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw unfit('has a manifest that is not JSON')
  }
}
