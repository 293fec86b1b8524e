/**
 * English stemming after the published Porter2 rules, with British -ise spellings and the irregular forms that tool
 * texts use. It joins word forms (`deployments`, `deploying`, `deploy`); the stem itself need not be a word.
 * Words with any character outside a–z are returned as they are.
 */
const irregular: Readonly<Record<string, string>> = {
  written: 'write',
  wrote: 'write',
  ran: 'run',
  built: 'build',
  found: 'find',
  sent: 'send',
  kept: 'keep',
  made: 'make',
  given: 'give',
  shown: 'show',
  taken: 'take',
  got: 'get',
  left: 'leave',
  creation: 'creat',
  verification: 'verifi',
  verifier: 'verifi',
  indices: 'index',
  indexes: 'index',
  children: 'child',
  people: 'person',
  news: 'news',
  status: 'status',
  alias: 'alias',
  bias: 'bias',
}

const vowels = 'aeiouy'
const doubled = new Set(['bb', 'dd', 'ff', 'gg', 'mm', 'nn', 'pp', 'rr', 'tt'])
const liEndings = 'cdeghkmnrt'

type Rule = readonly [suffix: string, replacement: string]

// Longest suffix first within each step, because the first one that fits decides.
const step2: readonly Rule[] = [
  ['ational', 'ate'],
  ['fulness', 'ful'],
  ['iveness', 'ive'],
  ['ization', 'ize'],
  ['isation', 'ize'],
  ['ousness', 'ous'],
  ['biliti', 'ble'],
  ['lessli', 'less'],
  ['tional', 'tion'],
  ['alism', 'al'],
  ['aliti', 'al'],
  ['ation', 'ate'],
  ['entli', 'ent'],
  ['fulli', 'ful'],
  ['iviti', 'ive'],
  ['ousli', 'ous'],
  ['abli', 'able'],
  ['alli', 'al'],
  ['anci', 'ance'],
  ['ator', 'ate'],
  ['enci', 'ence'],
  ['izer', 'ize'],
  ['iser', 'ize'],
  ['bli', 'ble'],
]
const step3: readonly Rule[] = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['alize', 'al'],
  ['alise', 'al'],
  ['icate', 'ic'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ness', ''],
  ['ful', ''],
]
const step4 = 'ement ance ence able ible ment ant ent ism ate iti ous ive ize ise al er ic'.split(' ')

export function stem(word: string): string {
  const known = Object.hasOwn(irregular, word) ? irregular[word] : undefined
  if (known !== undefined && known !== word) return stem(known)
  if (known !== undefined || word.length <= 2 || !/^[a-z]+$/.test(word)) return word
  let text = word.replace(/^y|(?<=[aeiouy])y/g, 'Y')
  const regionOne = regionAfter(text, 0)
  const regionTwo = regionAfter(text, regionOne)
  text = stripPlural(text)
  text = stripPastAndGerund(text, regionOne)
  text = text.replace(/(?<=.[^aeiouy])[yY]$/, 'i')
  text = replaceSuffix(text, step2, regionOne)
  if (text.endsWith('ogi') && text.length - 3 >= regionOne && text.at(-4) === 'l') text = text.slice(0, -1)
  else if (text.endsWith('li') && text.length - 2 >= regionOne && liEndings.includes(text.at(-3) ?? ' '))
    text = text.slice(0, -2)
  text = replaceSuffix(text, step3, regionOne)
  if (text.endsWith('ative') && text.length - 5 >= regionTwo) text = text.slice(0, -5)
  text = stripResidual(text, regionTwo)
  text = stripFinal(text, regionOne, regionTwo)
  return text.toLowerCase()
}

/** Where the region behind the first consonant that follows a vowel begins, looking from `start`. */
function regionAfter(text: string, start: number): number {
  if (start === 0) {
    const prefix = /^(gener|commun|arsen)/.exec(text)
    if (prefix !== null) return prefix[0].length
  }
  for (let index = start + 1; index < text.length; index++) {
    if (!vowels.includes(text[index]!) && vowels.includes(text[index - 1]!)) return index + 1
  }
  return text.length
}

function stripPlural(text: string): string {
  if (text.endsWith('sses')) return text.slice(0, -2)
  if (/i(ed|es)$/.test(text)) return text.length > 4 ? text.slice(0, -2) : text.slice(0, -1)
  if (/(us|ss)$/.test(text)) return text
  return /[aeiouy].+s$/.test(text) ? text.slice(0, -1) : text
}

function stripPastAndGerund(text: string, regionOne: number): string {
  const eed = /(eedly|eed)$/.exec(text)
  if (eed !== null) return eed.index >= regionOne ? `${text.slice(0, eed.index)}ee` : text
  const match = /(ingly|edly|ing|ed)$/.exec(text)
  if (match === null) return text
  const base = text.slice(0, match.index)
  if (!/[aeiouy]/.test(base)) return text
  if (/(at|bl|iz|[^aeiouy]is)$/.test(base)) return `${base}e`
  // A double l is undone too: `cancelled` and `cancel` are one word here, and `install` loses its own at the end.
  if (doubled.has(base.slice(-2)) || (base.endsWith('ll') && base.length > 4)) return base.slice(0, -1)
  return isShortWord(base, regionOne) ? `${base}e` : base
}

const endsInShortSyllable = (text: string): boolean =>
  /(^|[^aeiouy])[aeiouy][^aeiouywxY]$|^[aeiouy][^aeiouy]$/.test(text)
const isShortWord = (text: string, regionOne: number): boolean => regionOne >= text.length && endsInShortSyllable(text)

function replaceSuffix(text: string, rules: readonly Rule[], region: number): string {
  for (const [suffix, replacement] of rules) {
    if (!text.endsWith(suffix)) continue
    const cut = text.length - suffix.length
    return cut >= region ? text.slice(0, cut) + replacement : text
  }
  return text
}

function stripResidual(text: string, regionTwo: number): string {
  for (const suffix of step4) {
    if (text.endsWith(suffix)) return text.length - suffix.length >= regionTwo ? text.slice(0, -suffix.length) : text
  }
  return /[st]ion$/.test(text) && text.length - 3 >= regionTwo ? text.slice(0, -3) : text
}

function stripFinal(text: string, regionOne: number, regionTwo: number): string {
  const cut = text.length - 1
  if (text.endsWith('e')) {
    const removable = cut >= regionTwo || (cut >= regionOne && !endsInShortSyllable(text.slice(0, cut)))
    return removable ? text.slice(0, cut) : text
  }
  return text.endsWith('ll') && cut >= regionTwo ? text.slice(0, cut) : text
}
