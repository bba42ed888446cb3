/* Light, dark, or as the system has it; remembered where the browser allows. */

const THEMES = ['auto', 'light', 'dark'];
const THEME_KEY = 'rejoinder-theme';

function themeNow() {
  try {
    return localStorage.getItem(THEME_KEY) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function showTheme() {
  const name = themeNow(), root = document.documentElement, field = byId('theme');
  if (name === 'auto') delete root.dataset.theme;
  else root.dataset.theme = name;
  if (field) field.textContent = `Theme: ${name}`;
}

function nextTheme() {
  try {
    localStorage.setItem(THEME_KEY, THEMES[(THEMES.indexOf(themeNow()) + 1) % 3] ?? 'auto');
  } catch {
    return;
  }
  showTheme();
}
