import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import type { TarEntry } from '../../src/supervisor/images/tar-reader.ts'
import { tarEnd, tarHeader, tarPadding, type WritableEntry } from '../../src/supervisor/images/tar-writer.ts'

/** One file of a layer; what is left out is as for a plain file of root. */
export type LayerFile = Partial<Omit<TarEntry, 'sizeBytes' | 'name'>> &
  Readonly<{ name: string; content?: string | Uint8Array }>

const defaults = { kind: 'file', linkName: '', mode: 0o644, uid: 0, gid: 0, modifiedSecs: 1_700_000_000 } as const

export const directory = (name: string, more: Partial<LayerFile> = {}): LayerFile => ({
  mode: 0o755,
  ...more,
  name,
  kind: 'directory',
})
export const symlink = (name: string, linkName: string): LayerFile => ({ name, kind: 'symlink', linkName, mode: 0o777 })
export const hardlink = (name: string, linkName: string): LayerFile => ({ name, kind: 'hardlink', linkName })

function layerTar(files: readonly LayerFile[]): Buffer {
  const parts = files.flatMap(({ content = '', ...file }) => {
    const body = Buffer.from(content)
    const entry = { ...defaults, ...file, sizeBytes: body.length }
    if (entry.kind === 'device') return [deviceHeader(entry)]
    return [tarHeader(entry as WritableEntry), body, tarPadding(body.length)]
  })
  return Buffer.concat([...parts, tarEnd()])
}

/** Our writer makes none, so the kind is put in afterwards. */
function deviceHeader(entry: TarEntry): Buffer {
  const header = tarHeader({ ...entry, kind: 'fifo' })
  header.write('3', 156)
  header.fill(' ', 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

export type OciOptions = Readonly<{
  compression?: 'none' | 'gzip' | 'zstd'
  format?: 'oci' | 'docker'
  architecture?: string
  /** What the image says for its commands. */
  config?: Readonly<Record<string, unknown>>
  /** Changes the blobs and documents after their digests were taken. */
  tamper?(members: Map<string, Buffer>): void
}>

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const packers = { none: (bytes: Buffer) => bytes, gzip: gzipSync, zstd: zstdCompressSync } as const

/** Writes an image as skopeo (`oci`) or an older docker save (`docker`) does. */
export async function writeImageArchive(
  path: string,
  layers: readonly (readonly LayerFile[])[],
  options: OciOptions = {},
): Promise<void> {
  const members = new Map<string, Buffer>()
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))
  const tars = layers.map(layerTar)
  const config = json({
    os: 'linux',
    architecture: options.architecture ?? architectures[process.arch],
    ...(options.config === undefined ? {} : { config: options.config }),
    rootfs: { type: 'layers', diff_ids: tars.map((tar) => `sha256:${sha256(tar)}`) },
  })
  if (options.format === 'docker') {
    const names = tars.map((tar) => `${sha256(tar)}/layer.tar`)
    for (const [index, name] of names.entries()) members.set(name, tars[index]!)
    members.set(`${sha256(config)}.json`, config)
    members.set('manifest.json', json([{ Config: `${sha256(config)}.json`, RepoTags: ['a:b'], Layers: names }]))
  } else {
    const blob = (bytes: Buffer): { digest: string; size: number } => {
      members.set(`blobs/sha256/${sha256(bytes)}`, bytes)
      return { digest: `sha256:${sha256(bytes)}`, size: bytes.length }
    }
    const pack = packers[options.compression ?? 'gzip']
    const manifest = json({ schemaVersion: 2, config: blob(config), layers: tars.map((tar) => blob(pack(tar))) })
    members.set('oci-layout', json({ imageLayoutVersion: '1.0.0' }))
    members.set('index.json', json({ schemaVersion: 2, manifests: [blob(manifest)] }))
  }
  options.tamper?.(members)
  await writeFile(path, layerTar([...members].map(([name, content]) => ({ name, content }))))
}

/** A shell that runs in an otherwise empty root, with the libraries it needs. */
export const shellLayer = (): LayerFile[] => programsLayer(['sh'])

/** Programs of this machine, by name or by path, where they are here, with the libraries they need. */
export function programsLayer(names: readonly string[]): LayerFile[] {
  const programs = names.map(findProgram)
  const files = new Set([...programs, ...programs.flatMap(librariesOf)])
  return [
    ...['bin', 'sbin', 'lib', 'lib64'].map((name) => symlink(name, `usr/${name}`)),
    ...[...files].map((path) => ({ name: path.slice(1), content: readFileSync(path), mode: 0o755 })),
  ]
}

/** busybox under all its names. */
export function busyboxLayer(): LayerFile[] {
  const names = execFileSync(findProgram('busybox'), ['--list'], { encoding: 'utf8' }).trim().split('\n')
  const links = names.filter((name) => name !== 'busybox').map((name) => symlink(`usr/bin/${name}`, 'busybox'))
  return [...programsLayer(['busybox']), ...links]
}

function findProgram(name: string): string {
  const paths = name.startsWith('/') ? [name] : [`/usr/bin/${name}`, `/usr/sbin/${name}`]
  const found = paths.find((path) => existsSync(path))
  if (found === undefined) throw new Error(`The program ${name} is missing`)
  return found
}

function librariesOf(program: string): string[] {
  // It fails for a program that needs none.
  const { stdout } = spawnSync('ldd', [program], { encoding: 'utf8' })
  return [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!)
}
