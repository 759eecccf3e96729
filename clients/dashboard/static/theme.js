// Sets the theme before anything is drawn, so that nothing flashes: the user's choice, else the system's preference.
"use strict";
{
  const system = matchMedia("(prefers-color-scheme: light)");
  const apply = () => {
    document.documentElement.dataset.theme = localStorage.getItem("theme") ?? (system.matches ? "light" : "dark");
    document.dispatchEvent(new Event("theme"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("switch-theme", () => {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
}
