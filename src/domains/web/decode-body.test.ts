import { describe, expect, it } from 'vitest'
import { decodeBody, parseMediaType } from './decode-body.ts'

const decode = (bytes: Buffer, header?: string) => decodeBody(bytes, parseMediaType(header))
const latin = Buffer.from('caf\u00e9', 'latin1')

describe('the text of an answer', () => {
  it.each([
    ['the header', latin, 'text/plain; charset=ISO-8859-1', 'café'],
    ['a quoted charset', latin, 'text/plain; x=y; Charset="iso-8859-1"', 'café'],
    ['a byte order mark over the header', Buffer.from('\ufeffcafé'), 'text/plain; charset=iso-8859-1', 'café'],
    ['UTF-16 by its mark', Buffer.from('\ufeffhi', 'utf16le'), 'text/plain', 'hi'],
    [
      'what the page says',
      Buffer.concat([Buffer.from('<meta charset="windows-1252">'), latin]),
      'text/html',
      '<meta charset="windows-1252">café',
    ],
    [
      'the old way to say it',
      Buffer.concat([Buffer.from('<meta http-equiv=x content="text/html; charset=latin1">'), latin]),
      'text/html',
      '<meta http-equiv=x content="text/html; charset=latin1">café',
    ],
    ['an unknown charset', Buffer.from('café'), 'text/plain; charset=martian', 'café'],
    ['no header', Buffer.from('café'), undefined, 'café'],
    ['JSON', Buffer.from('{}'), 'application/problem+json', '{}'],
    ['broken bytes', latin, 'text/plain', 'caf\ufffd'],
  ])('follows %s', (_what, bytes, header, text) => {
    expect(decode(bytes, header)).toBe(text)
  })

  it.each([
    ['a picture', Buffer.from('x'), 'image/png'],
    ['an unnamed file with zero bytes', Buffer.from('a\0b'), undefined],
    ['an unnamed file that is no UTF-8', latin, 'application/octet-stream'],
    ['a document', Buffer.from('%PDF'), 'application/pdf'],
  ])('is none for %s', (_what, bytes, header) => {
    expect(decode(bytes, header)).toBeUndefined()
  })
})
