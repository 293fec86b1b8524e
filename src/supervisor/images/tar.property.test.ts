import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { readTar, type TarEntry } from './tar-reader.ts'
import { tarEnd, tarHeader, tarPadding, type WritableEntry } from './tar-writer.ts'

const scratch = mkdtempSync(join(tmpdir(), 'castellan-tar-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

async function* pieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function readAll(bytes: Buffer, pieceBytes = 4096): Promise<{ entry: TarEntry; content: string }[]> {
  const found: { entry: TarEntry; content: string }[] = []
  for await (const { entry, content } of readTar(pieces(bytes, pieceBytes))) {
    const parts: Uint8Array[] = []
    for await (const part of content()) parts.push(part)
    found.push({ entry, content: Buffer.concat(parts).toString('latin1') })
  }
  return found
}

/** Any bytes but NUL, which ends a name, and no trailing slash, which makes a directory. */
const name = (maxLength: number) =>
  fc
    .array(fc.integer({ min: 1, max: 255 }), { minLength: 1, maxLength })
    .map((codes) => String.fromCharCode(...codes))
    .filter((text) => !text.endsWith('/'))

const entry = fc
  .record({
    name: name(300),
    kind: fc.constantFrom('file', 'directory', 'symlink', 'hardlink', 'fifo'),
    linkName: name(300),
    mode: fc.integer({ min: 0, max: 0o7777 }),
    uid: fc.integer({ min: 0, max: 2 ** 31 }),
    gid: fc.integer({ min: 0, max: 2 ** 31 }),
    modifiedSecs: fc.integer({ min: 0, max: 2 ** 33 }),
    content: fc.uint8Array({ maxLength: 1500 }),
  })
  .map(({ content, ...supplied }) => {
    const isLink = supplied.kind === 'symlink' || supplied.kind === 'hardlink'
    const body = supplied.kind === 'file' ? Buffer.from(content) : Buffer.alloc(0)
    return {
      entry: { ...supplied, linkName: isLink ? supplied.linkName : '', sizeBytes: body.length } as WritableEntry,
      body,
    }
  })

it('reads back what was written, in whatever pieces it comes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { maxLength: 6 }),
      fc.integer({ min: 1, max: 3000 }),
      async (supplied, pieceBytes) => {
        const parts = supplied.flatMap(({ entry, body }) => [tarHeader(entry), body, tarPadding(body.length)])
        const found = await readAll(Buffer.concat([...parts, tarEnd()]), pieceBytes)
        expect(found).toEqual(supplied.map(({ entry, body }) => ({ entry, content: body.toString('latin1') })))
      },
    ),
    { numRuns: 200 },
  )
})

it('never reads a damaged archive as if it were another', async () => {
  const whole = Buffer.concat([
    tarHeader({ ...plain, name: 'one', sizeBytes: 3 }),
    Buffer.from('abc'),
    tarPadding(3),
    tarHeader({ ...plain, name: 'x'.repeat(150), sizeBytes: 0 }),
    tarEnd(),
  ])
  const good = JSON.stringify(await readAll(whole))
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 511 }), fc.integer({ min: 1, max: 255 }), async (at, change) => {
      const damaged = Buffer.from(whole)
      damaged[at] = damaged[at]! ^ change
      const read = await readAll(damaged).then(
        (found) => JSON.stringify(found),
        (error: unknown) => (error as { code: string }).code,
      )
      // Bytes outside every field still count in the checksum.
      expect([good, 'ERR_INVALID_INPUT']).toContain(read)
    }),
  )
  await expect(readAll(whole.subarray(0, 700))).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
})

const plain = { kind: 'file', linkName: '', mode: 0o644, uid: 0, gid: 0, modifiedSecs: 0 } as const

describe.each(['gnu', 'pax', 'ustar', 'v7'])('an archive that tar writes in format %s', (format) => {
  it('is read as tar lists it', async () => {
    const folder = join(scratch, format)
    mkdirSync(join(folder, 'a'), { recursive: true })
    writeFileSync(join(folder, 'a', 'file'), 'content\n')
    symlinkSync('../a', join(folder, 'a', 'link'))
    if (format !== 'v7') {
      const long = join(folder, 'd'.repeat(90), 'e'.repeat(90))
      mkdirSync(long, { recursive: true })
      writeFileSync(join(long, 'ü'), 'x'.repeat(1000))
    }
    const bytes = execFileSync('tar', ['-C', folder, '--sort=name', `--format=${format}`, '-cf', '-', '.'])
    const listed = execFileSync('tar', ['--quoting-style=literal', '-tf', '-'], { input: bytes }).toString('latin1')
    const found = await readAll(bytes)
    expect(found.map(({ entry }) => entry.name)).toEqual(listed.trimEnd().split('\n'))
    const file = found.find(({ entry }) => entry.name === './a/file')
    expect(file).toMatchObject({ content: 'content\n', entry: { kind: 'file', uid: process.getuid!() } })
    expect(found.find(({ entry }) => entry.name === './a/link')?.entry).toMatchObject({
      kind: 'symlink',
      linkName: '../a',
    })
  })
})
