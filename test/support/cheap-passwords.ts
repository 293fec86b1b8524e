/** What is tried with them is not how hard a password is to guess. */
export const CHEAP_PASSWORDS = { log2N: 4, r: 8, p: 1 }
