import { describe, expect, it } from 'vitest'
import { buildKeywordIndex } from './keyword-index.ts'
import { documentWords } from './tokenize.ts'

const documents = [
  { name: 'image-resizer', title: null, about: 'Changes width and height of pictures.' },
  { name: 'mail-sorter', title: 'Sort mail', about: 'Sorts incoming letters into folders.' },
  { name: 'poet', title: null, about: 'Writes verses about the sea.' },
]
const index = buildKeywordIndex(
  documents,
  (at) => ({ name: documentWords(documents[at]!.name), about: documentWords(documents[at]!.about) }),
  { fields: { name: { weight: 10, b: 0 }, about: { weight: 3, b: 0 } }, saturation: 0.3 },
)
const everything = documents.map(() => true)
const sharesOf = (query: string) => documents.map((_, at) => index.score(query, everything).shareOf(at))

describe('a query', () => {
  it('scores those that have its words, in whatever form', () => {
    const { scores } = index.score('resizing images', everything)
    expect([...scores].map((score) => score > 0)).toEqual([true, false, false])
  })

  it('that is a name or a title says so', () => {
    expect(index.score('image resizer', everything).isNamed).toEqual([true, false, false])
    expect(index.score('sort mail', everything).isNamed).toEqual([false, true, false])
  })

  it('is answered from 0 to 1, and less where a word is nowhere', () => {
    expect(sharesOf('letters')[1]).toBeGreaterThan(0.8)
    expect(sharesOf('letters')[0]).toBe(0)
    expect(sharesOf('letters xylophone')[1]).toBeLessThan(sharesOf('letters')[1]!)
    expect(sharesOf('')).toEqual([0, 0, 0])
  })

  it('finds nothing that is not visible, and reads no word from it', () => {
    const { scores, plan } = index.score('vrses', [true, true, false])
    expect([...scores]).toEqual([0, 0, 0])
    expect(plan.unmatched).toEqual(['vrses'])
    expect(index.score('vrses', everything).plan.corrected).toEqual([{ displayed: 'vrses', reading: 'verses' }])
  })
})
