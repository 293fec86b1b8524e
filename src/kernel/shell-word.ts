/** A word that a shell leaves as it is. */
export const shellWord = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
