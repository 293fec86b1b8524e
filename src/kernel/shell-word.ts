/** Quoted, so that a shell leaves it unchanged. */
export const shellWord = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
