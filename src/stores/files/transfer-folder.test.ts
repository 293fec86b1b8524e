import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LOCAL_TENANT, tenantId } from '../../contract/principal.ts'
import { createTransferFolder } from './transfer-folder.ts'

const ACME = tenantId('acme')
let base = ''
let directory = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'castellan-transfer-'))
  directory = join(base, 'transfers')
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const read = async (path: string, tenant = LOCAL_TENANT) =>
  await text((await createTransferFolder(directory).read(tenant, path)).stream)
const write = (path: string, content: string, tenant = LOCAL_TENANT) =>
  createTransferFolder(directory).write(tenant, path, Readable.from([Buffer.from(content)]))

describe('the transfer folder', () => {
  it('takes and gives files by relative path and by absolute path inside it', async () => {
    expect(await write('a/b/c', 'über')).toEqual({ bytes: 5 })
    expect(await read(join(directory, 'a/b/c'))).toBe('über')
    expect(await read('./a//b/c')).toBe('über')
    await write(join(directory, 'a/b/c'), 'new')
    expect(await read('a/b/c')).toBe('new')
    expect(readdirSync(join(directory, 'a/b'))).toEqual(['c'])
  })

  it('keeps the tenants apart', async () => {
    await write('mine', 'local')
    await write('mine', 'acme', ACME)
    expect([await read('mine'), await read('mine', ACME)]).toEqual(['local', 'acme'])
    for (const path of ['.tenants/acme/mine', join(directory, '.tenants/acme/mine'), '.tenants']) {
      await expect(read(path), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    await expect(read(join(directory, 'mine'), ACME)).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
  })

  it('follows no link on the way, and replaces one in the place of the file', async () => {
    mkdirSync(directory)
    writeFileSync(join(base, 'secret'), 'secret')
    symlinkSync(base, join(directory, 'out'))
    symlinkSync(join(base, 'secret'), join(directory, 'link'))
    for (const path of [
      'out/secret',
      'link',
      '../secret',
      'a/../../secret',
      join(base, 'secret'),
      '/etc/passwd',
      '',
      '.',
      '/',
    ]) {
      await expect(read(path), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    for (const path of ['out/new', '../new', join(base, 'new')]) {
      await expect(write(path, 'x'), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    await write('link', 'mine')
    expect(readFileSync(join(base, 'secret'), 'utf8')).toBe('secret')
    expect(readFileSync(join(directory, 'link'), 'utf8')).toBe('mine')
    expect(readdirSync(base).sort()).toEqual(['secret', 'transfers'])
  })

  it('says what is wrong with a path', async () => {
    await write('folder/file', 'x')
    await expect(read('none')).rejects.toMatchObject({ code: 'ERR_FILE_NOT_FOUND', details: { field: 'host_path' } })
    await expect(read('folder')).rejects.toMatchObject({ code: 'ERR_NOT_A_FILE' })
    await expect(write('folder', 'x')).rejects.toMatchObject({ code: 'ERR_NOT_A_FILE' })
    await expect(write('folder/file/under', 'x')).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
  })

  it('leaves the old file when the new content breaks off', async () => {
    await write('file', 'old')
    const broken = new Readable({
      read() {
        this.push('half')
        this.destroy(new Error('broke off'))
      },
    })
    await expect(createTransferFolder(directory).write(LOCAL_TENANT, 'file', broken)).rejects.toThrow('broke off')
    expect(await read('file')).toBe('old')
    expect(readdirSync(directory)).toEqual(['file'])
  })
})
